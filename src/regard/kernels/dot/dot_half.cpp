// The loop of dot products for half types, computed in float32. Apart from the others: each is built when it is needed.

#include "dot/exports.hpp"

REGARD_DOT(bfloat16, uint16_t, dot::Brain, float)
#ifdef REGARD_FLOAT16
REGARD_DOT(float16, uint16_t, _Float16, float)
#endif
