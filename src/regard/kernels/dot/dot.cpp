// The loop of dot products for float32 and float64.

#include "dot/exports.hpp"

REGARD_DOT(float32, float, float)
REGARD_DOT(float64, double, double)
