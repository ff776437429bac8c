/*
 * Every structure that two processes share. docs/shared-memory.md is the normative text.
 *
 * A slab is one sealed memfd that psid makes for one ordered pair of processes: the owner
 * maps it read-write, the peer read-only. It begins with a header of two pages and holds n_slots
 * slots. A slot is one side of one connection: a control page (struct shm_side) and the rings
 * that this side sends on, smallest first, each page-aligned. A connection has two slots of
 * the same index space, one in the slab of each side.
 *
 * A board area is one memfd that psid makes for each client: SHM_N_BOARDS pages after a header
 * page, mapped by every peer of the same user. Each is the board of one wait set, from
 * SHM_FIRST_LINES on lines of links; the last ones show how far the owner's peers are.
 *
 * Writers: a side's slot is written by its own family of processes alone; psid writes one byte of
 * it (notice, SHM_DEAD) after the last process of the family is gone, for all it knows. A board is
 * written by its owner and, by atomic OR only, by its publishers; half a line by either side of its
 * link.
 *
 * Nothing read from memory that another process can write is trusted: see ring.c and stream.c.
 */
#ifndef PULC_SHM_LAYOUT_H
#define PULC_SHM_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Of what is defined here, and of the frames that processes send each other through it. */
#define SHM_VERSION 12u
#define SHM_MAGIC_SLAB 0x6c73636c75703031ull
#define SHM_MAGIC_BOARDS 0x6462636c75703031ull

#define SHM_PAGE 4096u
/* Two cache lines: the adjacent-line prefetcher moves them together. */
#define SHM_LINE 128u

/* Rings of one direction, each larger than the one before; the stream moves on at a counted
 * byte. */
#define SHM_N_RINGS 5u
#define SHM_RING_SIZE_MIN 64u
#define SHM_RING_SIZE_MAX (64u << 20)
#define SHM_SLOTS_MAX 1024u
/* Waiters of each kind on one side; with more the direction goes back to the kernel. */
#define SHM_N_WATCHES 8u
#define SHM_N_BOARDS 256u
#define SHM_BOARD_WORDS 256u
#define SHM_BOARD_BITS (SHM_BOARD_WORDS * 64u)
#define SHM_BOARD_NOTES 32u
/* From this one on the pages hold no boards but lines (struct shm_exchange). */
#define SHM_FIRST_LINES 192u
/* And from here on neither, but what their owner shows of its peers (struct shm_pairs). */
#define SHM_FIRST_PAIRS 252u
#define SHM_N_ACQUAINTED 32u

/* ---- slab ------------------------------------------------------------------------------------ */

/* "The owner of this slab can ring these boards of that client by itself": a sleeper reads it
 * in its peer's slab before it trusts a bell. client 0: free entry. */
struct shm_acquaintance {
	_Atomic uint32_t client;
	uint32_t reserved;
	_Atomic uint64_t boards[SHM_N_BOARDS / 64];
};

struct shm_geometry {
	uint64_t magic;
	uint32_t version;
	uint32_t n_slots;
	uint64_t size;	    /* of the whole memfd, bytes */
	uint64_t size_slot; /* from one slot to the next, bytes */
	uint32_t size_ring[SHM_N_RINGS];
	uint32_t reserved;
};

struct shm_slab {
	struct shm_geometry geometry;
	uint8_t reserved[SHM_LINE - sizeof(struct shm_geometry) - 8];
	_Atomic uint64_t n_connects; /* connections that the owner has begun, free-running */
	struct shm_acquaintance acquainted[SHM_N_ACQUAINTED];
	uint8_t pad[SHM_PAGE - SHM_LINE - SHM_N_ACQUAINTED * sizeof(struct shm_acquaintance) -
		    SHM_SLOTS_MAX];
	_Atomic uint8_t let_go[SHM_SLOTS_MAX]; /* SHM_LET_GO */
	/* How many processes of the owner's family hold each slot, and whether more may come back
	 * (below); side by side, because a fork raises them all. */
	_Atomic uint32_t n_holders[SHM_SLOTS_MAX];
};
/* shm_slab.let_go: a process of the family that others were forked from holds this slot no more, or
 * is another program: they pay what is owed. */
#define SHM_LET_GO 1u
/* One has counted itself off, and psid may never hear of it. */
#define SHM_LET_GO_UNSAID 2u
/* So many, in the bits above, are about to count themselves off, or have and tell psid next: one
 * that is killed meanwhile stays among them. */
#define SHM_LET_GO_GOING 4u
/* shm_slab.n_holders: the number, and beside it: some who are about to execute a program have let
 * go, and hold the slot again if that fails. */
#define SHM_HOLDERS 0x1fffffffu
#define SHM_AWAITED 0x20000000u	   /* one of that number is whoever of them comes back first */
#define SHM_MAY_RETURN 0x40000000u /* as long as somebody has a lock on the slab's file */
#define SHM_MAY_RETURN_UNSEEN 0x80000000u /* nobody can tell for how long */
static_assert(sizeof(struct shm_acquaintance) == 40, "shared layout");
static_assert(offsetof(struct shm_geometry, size_ring) == 32, "shared layout");
static_assert(sizeof(struct shm_geometry) == 56, "shared layout");
static_assert(offsetof(struct shm_slab, acquainted) == SHM_LINE, "shared layout");
static_assert(offsetof(struct shm_slab, n_connects) == SHM_LINE - 8, "shared layout");
static_assert(offsetof(struct shm_slab, let_go) == SHM_PAGE - SHM_SLOTS_MAX, "shared layout");
static_assert(offsetof(struct shm_slab, n_holders) == SHM_PAGE, "shared layout");
static_assert(sizeof(struct shm_slab) == 2 * SHM_PAGE, "the header is two pages");
#define SHM_SIZE_HEADER ((uint64_t)sizeof(struct shm_slab))

/* ---- one side of a connection ---------------------------------------------------------------- */

/* Low half of shm_side.notice: what the other side must know before it goes on. */
#define SHM_RX_READY 0x0001u	/* maps both slots and looks at the ring: the peer may switch */
#define SHM_RX_RING 0x0002u	/* has drained the kernel up to kernel_at */
#define SHM_ABRUPT 0x0004u	/* closed without being shut down for writing before */
#define SHM_TX_FIN 0x0008u	/* shut down for writing: head is final */
#define SHM_CLOSED 0x0010u	/* closed by every holder */
#define SHM_WANT_KERNEL 0x0040u /* asks the peer to send through the kernel again */
#define SHM_LEFT                                                                                   \
	0x0080u /* reads the kernel alone: what lies in the peer's ring from tail on is to be sent there once more */
#define SHM_DECIDES 0x0100u /* is about to say whether its ring is RETURNED */
#define SHM_RX_LONE                                                                                \
	0x0200u /* receives datagrams from this ring and the kernel alone: their times may be about right */
#define SHM_BARRIER                                                                                \
	0x0400u /* makes a barrier on all processors before it sleeps: the peer needs no fence to tell it */
/* A byte of psid's alone, who cannot change a bit beside others that somebody may be changing: it
 * writes with system calls. */
#define SHM_DEAD 0x01000000u /* every process that held it is gone, or nobody knows of any */
#define SHM_EXITED                                                                                 \
	0x02000000u /* with SHM_DEAD, of a link: its process has ended, and was not only dropped by psid */
#define SHM_NOTICE_PSID 24 /* where it begins */

/* shm_side.tx_mode */
#define SHM_TX_KERNEL 0u /* not switched yet */
#define SHM_TX_RING 1u	 /* since kernel_at bytes */
#define SHM_TX_ENDED 2u	 /* back on the kernel after `head` ring bytes */
#define SHM_TX_RETURNED                                                                            \
	3u /* back on the kernel; what the peer has not taken from the ring goes there once more */

/* shm_side.local: an error of the connection is still to be told. The rest is the protocol's. */
#define SHM_LOCAL_UNTOLD 0x2u

/* Bytes of a small message that travel in the line of the head itself. */
#define SHM_INLINE 48u
/* shm_side.inline_at: the lower half of the byte number at which the copy begins, and a time above
 * it (order.h). */
#define SHM_INLINE_AT(at, when) ((uint64_t)(when) << 32 | (uint32_t)(at))
#define SHM_INLINE_WHEN(word) ((uint32_t)((word) >> 32))
#define SHM_NO_INLINE UINT32_MAX /* the lower half: being written, or none */

/* shm_side.dated: being written. No record ends there. */
#define SHM_UNDATED 1u

/* ring_at of a ring not yet begun */
#define SHM_NOT_BEGUN UINT64_MAX

/*
 * A watch names whom to tell: client << 32 | board << 16 | bit, plus one in bit 63 so that no watch
 * is 0. Free slot: 0. A lazy one need not be told of what nobody waits for.
 */
#define SHM_WATCH(client, board, bit)                                                              \
	(1ull << 63 | (uint64_t)((client)&0x7fffffffu) << 32 | (uint64_t)(board) << 16 | (bit))
#define SHM_WATCH_CLIENT(w) ((uint32_t)((w) >> 32) & 0x7fffffffu)
#define SHM_WATCH_BOARD(w) ((uint32_t)((w) >> 16) & 0xffffu)
#define SHM_WATCH_BIT(w) ((uint32_t)(w)&0x7fffu)
#define SHM_WATCH_LAZY 0x8000u

struct shm_side {
	/* Producer's line: written with each send. */
	_Atomic uint64_t head; /* ring bytes ever written by this side, free-running */
	/* A copy of a small last message, which begins there: it comes with the line that told of
	 * it. */
	_Atomic uint64_t inline_at; /* SHM_INLINE_AT */
	_Atomic uint64_t inlined[SHM_INLINE / 8];
	uint8_t pad0[SHM_LINE - 16 - SHM_INLINE];

	/* Consumer's line: written, in batches, with receives. */
	_Atomic uint64_t tail; /* ring bytes ever taken by this side, free-running */
	uint8_t pad1[SHM_LINE - 8];

	/* Notice line: read by the peer after each publication, written rarely. */
	_Atomic uint64_t notice;   /* high 32: number of rx arms; low 32: SHM_RX_READY ... */
	_Atomic uint64_t tx_armed; /* number of tx arms */
	_Atomic uint32_t cpu;	   /* processor that this side last waited on, plus 1; 0: unknown */
	uint8_t pad2[SHM_LINE - 20];

	/* Switch line: written a few times in a connection's life. */
	_Atomic uint64_t kernel_at; /* bytes written through the kernel before the ring */
	_Atomic uint64_t ring_at[SHM_N_RINGS]; /* ring byte at which each ring begins */
	_Atomic uint32_t tx_mode;
	/* SHM_LINE_NAME of the exchange where each new head is told; 0: in none */
	_Atomic uint64_t line;
	/* Buffers that the program has given the socket, as the kernel counts them, bytes; 0: it
	 * has not. The first is the family's own. */
	_Atomic uint32_t size_sndbuf;
	_Atomic uint32_t size_rcvbuf;
	uint8_t pad3[SHM_LINE - 72];

	/*
	 * The family's own state: the peer has hardly a use for it. Locks hold the thread id of
	 * their owner; the death of an owner is recovered (shm/lock.c).
	 */
	_Atomic uint32_t tx_lock;
	/* What this side has measured, for psid to show; 0: nothing yet. */
	_Atomic uint32_t psec_in;
	_Atomic uint32_t size_piece;
	uint8_t pad4[4];
	_Atomic uint32_t tx_boost; /* shm/lock.c */
	uint32_t reserved0;
	/* ring byte from which on long pieces are written in the present way (shm/pace.c) */
	_Atomic uint64_t pace_since;
	/* Of a queue's record that does not tell itself when it was sent: the ring byte behind it,
	 * and when, CLOCK_REALTIME, ns (queue.h). */
	_Atomic uint64_t dated;
	_Atomic uint64_t date;
	uint8_t pad5[16];
	_Atomic uint32_t rx_lock;
	_Atomic uint32_t psec_out;
	_Atomic uint64_t rx_taken; /* ring bytes taken, not yet all published as tail */
	_Atomic uint32_t rx_boost;
	uint32_t reserved1;
	/* the answer to the peer's pace_since: its low half, and ps for a byte; 0: none yet */
	_Atomic uint64_t pace_read;
	uint8_t pad6[32];
	_Atomic uint32_t rx_mode; /* TCP_RX_* of protocols/tcp_local.h */
	_Atomic uint32_t inq;	  /* TCP_INQ: recvmsg tells how much is left */
	_Atomic uint32_t nonblock;
	_Atomic uint32_t rcvlowat;
	_Atomic uint64_t usec_rcvtimeo; /* 0: none */
	_Atomic uint64_t usec_sndtimeo;
	_Atomic uint32_t local;	 /* local conditions: shut for reading, SHM_LOCAL_UNTOLD ... */
	_Atomic uint32_t growth; /* largest ring whose pages are allocated */
	/* SHM_TX_RETURNED: ring bytes that the kernel has taken once more, or needn't */
	_Atomic uint64_t returned;
	uint8_t pad7[SHM_LINE - 48];

	/* Watch line: written by who goes to sleep, read by the peer only when the notice line
	 * counts a new arm. */
	_Atomic uint64_t rx_watch[SHM_N_WATCHES]; /* tell these when data comes */
	_Atomic uint64_t tx_watch[SHM_N_WATCHES]; /* tell these when space comes */
};
static_assert(offsetof(struct shm_side, tail) == 1 * SHM_LINE, "shared layout");
static_assert(offsetof(struct shm_side, notice) == 2 * SHM_LINE, "shared layout");
static_assert(offsetof(struct shm_side, kernel_at) == 3 * SHM_LINE, "shared layout");
static_assert(offsetof(struct shm_side, tx_lock) == 4 * SHM_LINE, "shared layout");
static_assert(offsetof(struct shm_side, rx_lock) == 4 * SHM_LINE + 64, "shared layout");
static_assert(offsetof(struct shm_side, rx_mode) == 5 * SHM_LINE, "shared layout");
static_assert(offsetof(struct shm_side, rx_watch) == 6 * SHM_LINE, "shared layout");
static_assert(sizeof(struct shm_side) == 7 * SHM_LINE, "shared layout");
static_assert(sizeof(struct shm_side) <= SHM_PAGE, "a side's control words are one page");

/* Before each datagram in a queue's ring (shm/queue.c): a multiple of its own size begins every
 * record. */
struct shm_record {
	uint64_t stamp; /* a time, protocols/udp.h: CLOCK_REALTIME of the sender, ns */
	uint32_t len;	/* bytes of payload that follow */
	uint32_t flags; /* protocols/udp.h */
};
static_assert(sizeof(struct shm_record) == 16, "shared layout");
static_assert(SHM_RING_SIZE_MIN % sizeof(struct shm_record) == 0, "no header lies around an end");

/* ---- boards ---------------------------------------------------------------------------------- */

struct shm_boards {
	uint64_t magic;
	uint32_t version;
	uint32_t n_boards;
	uint32_t client;
	uint32_t reserved;
};
static_assert(sizeof(struct shm_boards) == 24, "shared layout");

/* What the owner of the area shows of its ports and links, for psid to report: behind the header,
 * in the same page. */
#define SHM_STATE_AT SHM_LINE
#define SHM_N_PORTS_SHOWN 116u

/* shm_state_port.counts */
#define SHM_PORT_UNREAD 0u /* memory of messages that nobody has received, bytes */
#define SHM_PORT_HELD 1u   /* sources that were told to send nothing more */
#define SHM_PORT_WAITS 2u  /* destinations that take nothing more from it */
#define SHM_N_PORT_COUNTS 3u

/* shm_state.counts */
#define SHM_TAGS_EARLY 0u   /* tagged messages that nobody has asked for, */
#define SHM_TAGS_SIZE 1u    /* their bytes, those that their senders still have included, */
#define SHM_TAGS_POSTED 2u  /* and receives that no message has come for */
#define SHM_TCP_RECEIVED 3u /* bytes taken from links to other nodes, frame headers included, */
#define SHM_TCP_SENT 4u	    /* and sent on them; */
#define SHM_TCP_ARRIVED 5u  /* not taken yet; */
#define SHM_TCP_UNSENT 6u   /* not yet taken by the kernel */
#define SHM_N_COUNTS 16u

struct shm_state_port {
	_Atomic uint64_t number; /* 0: none */
	_Atomic uint64_t counts[SHM_N_PORT_COUNTS];
};

struct shm_state {
	_Atomic uint64_t counts[SHM_N_COUNTS];
	struct shm_state_port ports[SHM_N_PORTS_SHOWN];
};
static_assert(sizeof(struct shm_state_port) == 32, "shared layout");
static_assert(offsetof(struct shm_state, ports) == SHM_LINE, "shared layout");
static_assert(SHM_STATE_AT + sizeof(struct shm_state) <= SHM_PAGE, "in the page of the header");

/* One wait set's bitmap: word i's summary bit is summary[i / 64] bit i % 64. Whoever sets a bit
 * sets the word first and the summary after it; the owner clears in the opposite order. */
struct shm_board {
	_Atomic uint32_t asleep; /* 1: somebody sleeps, or is about to; ring the bell */
	uint8_t pad0[SHM_LINE - 4];
	_Atomic uint64_t summary[SHM_BOARD_WORDS / 64];
	/* The latest bits in the order in which they were set: a hint, beside the summary because
	 * whoever sets one writes there. */
	_Atomic uint32_t n_noted; /* ever, free-running */
	_Atomic uint32_t n_taken; /* of these; the owner's */
	_Atomic uint16_t noted[SHM_BOARD_NOTES];
	uint8_t pad1[SHM_LINE - 40 - 2 * SHM_BOARD_NOTES];
	_Atomic uint64_t words[SHM_BOARD_WORDS];
};
static_assert(offsetof(struct shm_board, words) == 2 * SHM_LINE, "shared layout");
static_assert(sizeof(struct shm_board) <= SHM_PAGE, "a board is one page");

/* ---- lines that two processes write ---------------------------------------------------------- */

/* Bytes of a small message that travel with the news of it. */
#define SHM_TOLD 24u
/* shm_half.mark: the head, and in its low bits how many of its last bytes are here. */
#define SHM_MARK(head, n) ((head) << 6 | (n))
#define SHM_MARK_HEAD(mark) ((mark) >> 6)
#define SHM_MARK_N(mark) ((mark) % 64)
#define SHM_MARK_NONE UINT64_MAX /* being written */

struct shm_half {
	_Atomic uint64_t mark;
	_Atomic uint64_t words[SHM_TOLD / 8];
};

/*
 * What one side of a link tells lies in one half, what the other side answers in the other half of
 * the same line: who has fetched the line to read it has it to write the answer. With a line for
 * each direction, each is taken away from its reader once more to be written.
 */
struct shm_exchange {
	struct shm_half halves[2];
	uint8_t pad[SHM_LINE - 2 * sizeof(struct shm_half)];
};
/* Line i of that client's area; never 0. */
#define SHM_LINE_NAME(client, i) ((uint64_t)(client) << 32 | ((i) + 1))
#define SHM_LINE_CLIENT(name) ((uint32_t)((name) >> 32))
#define SHM_LINE_INDEX(name) ((uint32_t)(name)-1)
#define SHM_LINES_PER_PAGE (SHM_PAGE / sizeof(struct shm_exchange))
#define SHM_N_LINES ((SHM_FIRST_PAIRS - SHM_FIRST_LINES) * SHM_LINES_PER_PAGE)
static_assert(sizeof(struct shm_half) == 32, "two halves are one line of every processor");
static_assert(sizeof(struct shm_exchange) == SHM_LINE, "shared layout");
static_assert(SHM_PAGE % sizeof(struct shm_exchange) == 0, "lines fill pages");

/* ---- what is shown of peers ------------------------------------------------------------------ */

/* What a source may have on its way to one port and unread there, and a process of tagged messages
 * at another one, bytes of cost. */
#define SHM_PORT_WINDOW (3u << 20)
#define SHM_TAG_WINDOW (1u << 20)

/* shm_pair.who: what the entry tells of, and psid's number of the process at the other end; 0:
 * ourselves. */
#define SHM_PAIR_TO                                                                                \
	1u /* a port that one of the owner's sends to: credit used, SHM_PAIR_WAITS and SHM_PAIR_HELD */
#define SHM_PAIR_FROM                                                                              \
	2u /* one that sends to a port of the owner's: memory of its unread messages, SHM_PAIR_HELD */
#define SHM_PAIR_TAGS 3u  /* the process, of tagged messages: credit used, SHM_PAIR_WAITS */
#define SHM_PAIR_TCP 4u	  /* the link to it, on another node: bytes received, bytes sent */
#define SHM_PAIR_URING 5u /* the same, of a link that uses io_uring */
#define SHM_PAIR_WHO(kind, client) ((uint64_t)(kind) << 32 | (uint32_t)(client))
#define SHM_PAIR_KIND(who) ((uint32_t)((who) >> 32))
#define SHM_PAIR_CLIENT(who) ((uint32_t)(who))

/* Of counts[1] */
#define SHM_PAIR_WAITS 1u /* a send has found no credit, or the other side has told it to wait, */
#define SHM_PAIR_HELD 2u  /* which was said by the receiver, whose process keeps too much */

struct shm_pair {
	_Atomic uint64_t who;	/* 0: free */
	_Atomic uint64_t ports; /* the owner's << 32 | the other one; 0: it is about processes */
	_Atomic uint64_t counts[2];
};
#define SHM_N_PAIRS                                                                                \
	((SHM_N_BOARDS - SHM_FIRST_PAIRS) * (SHM_PAGE / (uint32_t)sizeof(struct shm_pair)))

struct shm_pairs {
	struct shm_pair pairs[SHM_N_PAIRS]; /* the first is nobody's */
};
static_assert(SHM_PAGE % sizeof(struct shm_pair) == 0, "entries fill pages");
static_assert(SHM_FIRST_LINES < SHM_FIRST_PAIRS && SHM_FIRST_PAIRS < SHM_N_BOARDS,
	      "behind the lines");
#define SHM_PAIRS_AT ((uint64_t)(1 + SHM_FIRST_PAIRS) * SHM_PAGE)

/* ---- message areas --------------------------------------------------------------------------- */

/* A process's memory for messages that others read where they lie: bytes of its user's and nothing
 * else. Sparse. */
#define SHM_SIZE_MESSAGES (1ull << 30)

#define SHM_SIZE_BOARDS ((uint64_t)(1 + SHM_N_BOARDS) * SHM_PAGE)

#endif
