#!/bin/bash
# psid as a service: its socket is given, what it does is told, it shows that it lives, it reads its settings again;
# and the units are what systemd accepts, confined as far as they claim.
set -u
bin=$PULC_BUILD/bin

check() {
	local name=$1 why
	shift
	if why=$("$@" 2>&1); then
		echo "ok service.$name"
	else
		echo "not ok service.$name: $(tail -n 1 <<<"${why:-failed: $*}")"
	fi
}

# In tenths: 35 is 3.5.
exposure_is_low() {
	local report
	report=$(systemd-analyze security --offline=yes --threshold=35 "$TMPDIR/unit/psid.service" 2>&1) ||
		{ tail -n 1 <<<"$report"; return 1; }
}

# What they start need not be installed here.
units_are_sound() {
	local said
	said=$(systemd-analyze verify "$TMPDIR"/unit/*.service "$TMPDIR"/unit/*.socket 2>&1 | grep -F "$TMPDIR/unit")
	[ -z "$said" ] || { echo "$said"; return 1; }
}

# Each message id has a text, and each text a message.
catalog_is_complete() {
	diff <(grep -oE '"[0-9a-f]{32}"' psid/log.c | tr -d '"' | sort) \
		<(sed -n 's/^-- //p' systemd/pulc.catalog | sort)
}

catalog_is_sound() {
	mkdir -p "$TMPDIR/root/usr/lib/systemd/catalog" "$TMPDIR/root/var/lib/systemd/catalog"
	cp systemd/pulc.catalog "$TMPDIR/root/usr/lib/systemd/catalog/"
	journalctl --root="$TMPDIR/root" --update-catalog &&
		[ "$(journalctl --root="$TMPDIR/root" --list-catalog 2>/dev/null | wc -l)" = "$(grep -c '^-- ' systemd/pulc.catalog)" ]
}

check catalog_is_complete catalog_is_complete
mkdir "$TMPDIR/unit"
for unit in psid.service psid-starter.service; do
	sed "s|^\(Exec[A-Za-z]*\)=.*|\1=/bin/true|" "$PULC_BUILD/$unit" >"$TMPDIR/unit/$unit"
done
cp systemd/psid.socket systemd/psid-starter.socket "$TMPDIR/unit"
if command -v systemd-analyze >/dev/null; then
	check units_are_sound units_are_sound
	check exposure_is_low exposure_is_low
	check catalog_is_sound catalog_is_sound
else
	echo "skip service.units_are_sound: no systemd-analyze here"
fi
python3 tests/house/manager.py "$bin"
