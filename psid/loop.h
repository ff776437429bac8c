/* libuv, without the MIN and MAX that it drags in: ours stay what they are. */
#ifndef PULC_PSID_LOOP_H
#define PULC_PSID_LOOP_H

#pragma push_macro("MIN")
#pragma push_macro("MAX")
#include <uv.h>
#pragma pop_macro("MIN")
#pragma pop_macro("MAX")

#endif
