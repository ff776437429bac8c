/*
 * Named points inside of what several processes do together: where one of them may be killed, and
 * the others must go on or be told.
 *
 * This is the one list of them. A build for tests (SAN=...) kills a process there that a test has
 * chosen (step.c, tests/steps/), and the tests fail if they do not come past all of them; in every
 * other build a point is nothing.
 */
#ifndef PULC_BASE_STEP_H
#define PULC_BASE_STEP_H

/* What has been done when it is reached. */
#define STEPS(X)                                                                                                             \
	/* a lock of a family (shm/lock.h) */                                                                                \
	X(LOCK_LISTED)	 /* the kernel is told which lock it will be */                                                      \
	X(LOCK_TAKEN)	 /* it is ours */                                                                                    \
	X(LOCK_MARKED)	 /* another one has it, and knows that somebody waits */                                             \
	X(LOCK_WOKEN)	 /* slept, and was woken or has slept for long enough */                                             \
	X(LOCK_LEFT)	 /* it is nobody's, and the kernel thinks still of it */                                             \
	X(LOCK_UNLISTED) /* and those who wait are not woken */                                                              \
	X(LOCK_PASSED)	 /* they are */                                                                                      \
	/* bytes and records in rings, under such a lock (shm/stream.c, queue.c) */                                          \
	X(RING_INLINE)	  /* the short way is written, the head not */                                                       \
	X(RING_COPIED)	  /* bytes are there, the head does not say so */                                                    \
	X(RING_PUBLISHED) /* it does; the message has more, or the peer is not woken */                                      \
	X(RING_GROWING)	  /* the next ring has memory, and no place in the row of bytes */                                   \
	X(RING_GROWN)	  /* it has */                                                                                       \
	X(RING_READ)	  /* bytes are copied out, and not taken */                                                          \
	X(RING_TAKEN)	  /* they are, and the sender does not see the room */                                               \
	X(QUEUE_INLINE)                                                                                                      \
	X(QUEUE_COPIED)                                                                                                      \
	X(QUEUE_PUBLISHED)                                                                                                   \
	/* a line that two processes write (shm/exchange.h) */                                                               \
	X(LINE_BEGUN) /* it tells the head of the moment, and nobody knows of it */                                          \
	X(LINE_TELLS) /* what it told is void */                                                                             \
	X(LINE_WORDS) /* the record is there, the head is not */                                                             \
	X(LINE_TOLD)  /* both are */                                                                                         \
	/* a semaphore (shm/sem.c, libpulc/native_sem.c, psid/sems.c) */                                                     \
	X(SEM_TAKEN)	 /* a count is ours, and nobody was told */                                                          \
	X(SEM_MARKED)	 /* the others know that somebody sleeps */                                                          \
	X(SEM_SLEEPS)	 /* there is none indeed, and it is about to */                                                      \
	X(SEM_SLEPT)	 /* slept, and was woken or has slept for long enough */                                             \
	X(SEM_PASSED)	 /* looked whether there is one for the next sleeper too */                                          \
	X(SEM_FREED)	 /* a count is free, and nobody is woken */                                                          \
	X(SEM_TURNED)	 /* sleepers are told in memory, and not woken */                                                    \
	X(SEM_OPENED)	 /* psid has let us in, and nothing is noted here */                                                 \
	X(SEM_CLOSED)	 /* what was held is free, psid does not know */                                                     \
	X(SEM_JOINED)	 /* a forked child has a part of its own */                                                          \
	X(SEM_MADE)	 /* psid: it exists and has a name, nobody was answered */                                           \
	X(SEM_HELD)	 /* psid: the client has a part, and was not answered */                                             \
	X(SEM_FORGOTTEN) /* psid: what a client held is free, its part is still there */                                     \
	/* blocks of the message area (libpulc/native_block.c, protocols/tag_block.c) */                                     \
	X(BLOCK_AREA)	  /* psid has made the area */                                                                       \
	X(BLOCK_CREDIT)	  /* psid has granted memory, and no page is allocated */                                            \
	X(BLOCK_PAGES)	  /* they are, and the block is nobody's */                                                          \
	X(BLOCK_MINE)	  /* it is the program's */                                                                          \
	X(BLOCK_SHOWN)	  /* the receiver was shown the area */                                                              \
	X(BLOCK_GIVEN)	  /* its message is on the way */                                                                    \
	X(BLOCK_ARRIVED)  /* the receiver knows of it */                                                                     \
	X(BLOCK_LENT)	  /* and reads it */                                                                                 \
	X(BLOCK_RETURNED) /* has said that it is free */                                                                     \
	X(BLOCK_BACK)	  /* and the sender has heard that */                                                                \
	/* a long message with a tag is offered, and fetched or pushed (protocols/tag_send.c, tag_receive.c, tag_fetch.c) */ \
	X(TAG_OFFERED)	 /* the offer has left */                                                                            \
	X(TAG_HEARD)	 /* the receiver has it, and has not looked for a receive */                                         \
	X(TAG_BOUND)	 /* it goes to a receive, no byte is there */                                                        \
	X(TAG_PULLED)	 /* a part was copied out of the sender's memory */                                                  \
	X(TAG_ASKED)	 /* the sender was asked for the bytes */                                                            \
	X(TAG_PUSHES)	 /* the sender has heard that */                                                                     \
	X(TAG_PIECE)	 /* and has sent a piece */                                                                          \
	X(TAG_CAME)	 /* which is in the receiver's buffer */                                                             \
	X(TAG_RECEIVED)	 /* all is there, the sender was not told */                                                         \
	X(TAG_SAID_DONE) /* it was */                                                                                        \
	X(TAG_DONE)	 /* and has heard it, the send has not ended */                                                      \
	X(TAG_WITHDRAWS) /* a send that was cancelled has asked whether its offer is still there */                          \
	X(TAG_AGREED)	 /* the receiver has forgotten the offer, and said so */                                             \
	X(TAG_WITHDRAWN) /* and the sender has heard it */                                                                   \
	/* a port passes from one process to another (libpulc/native_move.c, protocols/port_*.c) */                          \
	X(GIVE_SAID)	/* psid knows for whom it is */                                                                      \
	X(GIVE_BEGUN)	/* psid has said to whom */                                                                          \
	X(GIVE_ASKED)	/* one of those who are joined was asked to stop */                                                  \
	X(GIVE_STOPPED) /* all have stopped */                                                                               \
	X(GIVE_CARRIES) /* the taker knows that messages come */                                                             \
	X(GIVE_PIECE)	/* a piece of one is sent */                                                                         \
	X(GIVE_CARRIED) /* all are */                                                                                        \
	X(GIVE_DONE)	/* psid has said that it is the other's */                                                           \
	X(GIVE_TELLS)	/* ours is forgotten, nobody was told */                                                             \
	X(GIVE_TOLD)	/* all were */                                                                                       \
	X(GIVE_FREED)                                                                                                        \
	X(TAKE_SAID)	  /* psid knows that we want one */                                                                  \
	X(TAKE_BEGUN)	  /* psid has said which, and we are ready */                                                        \
	X(TAKE_READY)	  /* psid knows that */                                                                              \
	X(TAKE_CARRIES)	  /* messages come */                                                                                \
	X(TAKE_PIECE)	  /* a piece of one has come */                                                                      \
	X(TAKE_COMPLETE)  /* all have */                                                                                     \
	X(TAKE_CLAIMED)	  /* psid has said that it is ours */                                                                \
	X(TAKE_OWNED)	  /* and the program has it */                                                                       \
	X(MOVE_HEARD)	  /* a sender is asked to stop */                                                                    \
	X(MOVE_STOPPED)	  /* has said that it has */                                                                         \
	X(MOVE_GONE)	  /* has heard that the port has moved */                                                            \
	X(MOVE_FOUND)	  /* and found it again */                                                                           \
	X(MOVES_GIVEN)	  /* psid: knows for whom it is */                                                                   \
	X(MOVES_WANTED)	  /* psid: knows who wants it */                                                                     \
	X(MOVES_JOINED)	  /* psid: the two are joined, and were not told */                                                  \
	X(MOVES_BEGUN)	  /* psid: the taker was told */                                                                     \
	X(MOVES_READY)	  /* psid: the taker is ready */                                                                     \
	X(MOVES_STARTED)  /* psid: the owner was told to begin */                                                            \
	X(MOVES_OWNED)	  /* psid: the taker is the owner, and nobody was told */                                            \
	X(MOVES_TOLD)	  /* psid: those who are joined with the taker were told */                                          \
	X(MOVES_ANSWERED) /* psid: so was the taker */                                                                       \
	X(MOVES_DONE)	  /* psid: and the former owner */                                                                   \
	X(MOVES_ENDED)	  /* psid: and all others */                                                                         \
	/* a process asks the owner of a port that they share (protocols/guest_ask.c, guest_serve.c, guest_work.c) */        \
	X(GUEST_FOUND)	  /* the guest knows the owner, and has said nothing */                                              \
	X(GUEST_PIECE)	  /* has sent a piece of what is to be sent, */                                                      \
	X(GUEST_SAID)	  /* or all that it has to say of a request */                                                       \
	X(GUEST_SENT)	  /* a send was done, it hears */                                                                    \
	X(GUEST_CAME)	  /* a part of a message is here, */                                                                 \
	X(GUEST_HERE)	  /* or all, and the owner was not told */                                                           \
	X(GUEST_TOOK)	  /* it was */                                                                                       \
	X(GUEST_WITHDREW) /* it was asked to forget a request */                                                             \
	X(HOST_HEARD)	  /* the owner has heard of one, */                                                                  \
	X(HOST_WHOLE)	  /* and has all bytes of a send */                                                                  \
	X(HOST_DONE)	  /* has done it, and has not said so */                                                             \
	X(HOST_PIECE)	  /* a piece of a message is on its way to the guest, */                                             \
	X(HOST_ANSWERED)  /* or all of the answer */                                                                         \
	X(HOST_TAKEN)	  /* the guest has the message, which is still here */                                               \
	X(HOST_WITHDRAWN) /* what was lent is back, for it is not wanted */                                                  \
	X(HOST_LEFT)	  /* or the guest has ended */

enum step {
#define STEP_NUMBER(name) STEP_##name,
	STEPS(STEP_NUMBER)
#undef STEP_NUMBER
		N_STEPS
};

#ifdef PULC_STEPS
void step_reached(enum step step);
#define STEP(name) step_reached(STEP_##name)
#else
#define STEP(name) ((void)0)
#endif

#endif
