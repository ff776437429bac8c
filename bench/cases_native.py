"""The cases of ports and tags: programs written to pulc/pulc.h and pulc/tag.h, beside the same exchange over sockets."""

import report
from cases import Series, case


@case("native-pingpong")
def native_pingpong(bench):
    """8 B one way between two ports, kinds D and S, and with a tag (T), beside sockets on the kernel and under PULC"""
    s = Series()
    options = ("--msec", bench.msec(300), "--warmup-msec", bench.msec(300))
    for floor in bench.repetitions():
        s.add(floor=floor["line_ns"])
        for mode in ("spin", "blocking"):
            line = bench.program("pingpong", "--mode", mode, *options)[0]
            s.add(**{mode: line["one_way_ns"]})
        shim = s.add_on_rings(bench, "pingpong", "--mode", "blocking", *options)[0]
        s.add(shim=shim["one_way_ns"])
        for kind in ("D", "S", "T"):
            line = bench.program("native", "--kind", kind, *options)[0]
            s.add(**{kind: line["one_way_ns"]})
    rows = []
    for kind, limit in (("D", 2.0), ("S", 2.0), ("T", 1.6)):
        name = f"native-pingpong/{kind}"
        rows += [report.at_most(f"{name}/floor", s[kind], s["floor"], "ns", limit, "floor"),
                 report.inform(f"{name}/spin", s[kind], s["spin"], "ns", "kernel, spinning"),
                 report.inform(f"{name}/kernel", s[kind], s["blocking"], "ns", "kernel, blocking"),
                 report.inform(f"{name}/shim", s[kind], s["shim"], "ns", "socket on rings")]
    return rows


@case("native-bandwidth")
def native_bandwidth(bench):
    """messages of 64 KiB and 1 MiB one way to a port D, and with a tag, four under way, beside sockets"""
    rows = []
    options = ("--msec", bench.msec(300), "--warmup-msec", bench.msec(300))
    for name, size, memcpy, limit in (("64KiB", 64 << 10, "memcpy_64k_gbs", 0.45),
                                      ("1MiB", 1 << 20, "memcpy_1m_gbs", 0.40)):
        s = Series()
        sized = ("--size", str(size), *options)
        for floor in bench.repetitions(3):
            s.add(memcpy=floor[memcpy],
                  kernel=bench.program("stream", *sized)[0]["gbs"],
                  shim=s.add_on_rings(bench, "stream", *sized)[0]["gbs"],
                  pulc=bench.program("native", "--bandwidth", *sized)[0]["gbs"],
                  tags=bench.program("native", "--bandwidth", "--kind", "T", *sized)[0]["gbs"])
        case_name = f"native-bandwidth/{name}"
        rows += [
            report.at_least(f"{case_name}/memcpy", s["pulc"], s["memcpy"], "GB/s", limit, "memcpy"),
            report.at_least(f"{case_name}/tags", s["tags"], s["memcpy"], "GB/s", limit, "memcpy"),
            report.inform(f"{case_name}/kernel", s["pulc"], s["kernel"], "GB/s", "kernel"),
            report.inform(f"{case_name}/shim", s["pulc"], s["shim"], "GB/s", "socket on rings")]
    return rows


@case("block-bandwidth")
def block_bandwidth(bench):
    """messages of 1 MiB that nobody copies and their receiver reads: not built anew, built past the caches, built with ordinary stores"""
    s = Series()
    options = ("--size", str(1 << 20), "--msec", bench.msec(300), "--warmup-msec", bench.msec(300))
    for floor in bench.repetitions(3):
        s.add(memcpy=floor["memcpy_1m_gbs"],
              **{build: bench.program("block", "--build", build, *options)[0]["gbs"]
                 for build in ("none", "past", "ordinary")})
    return [report.at_least("block-bandwidth/none", s["none"], s["memcpy"], "GB/s", 0.85, "memcpy"),
            report.inform("block-bandwidth/past", s["past"], s["memcpy"], "GB/s", "memcpy"),
            report.inform("block-bandwidth/ordinary", s["ordinary"], s["memcpy"], "GB/s", "memcpy")]
