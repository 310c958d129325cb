// The loop of dot products for float32 and float64.

#include "dot/exports.hpp"

REGARD_DOT(float32, float, float, float)
REGARD_DOT(float64, double, double, double)

// Whether products of float32 are made by the processor's matrix unit, for which the system is asked.
extern "C" int64_t dot_matrix_unit() {
#ifdef DOT_MATRIX_UNIT
    return tiles::granted();
#else
    return 0;
#endif
}
