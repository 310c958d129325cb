// softmax(scale · q kᵀ + bias) v, its gradients and its statistics, of any type: what `dot.cpp` and `dot_half.cpp` build.
//
// Milakov & Gimelshein 2018 (a softmax whose maximum is corrected as it goes) and Dao et al. 2022 (tile by tile,
// made again on the backward pass). Keys and values are packed once for each head, whatever their types and steps.

#pragma once

#include <type_traits>

#include "dot/backward.hpp"
#include "dot/forward.hpp"
#include "dot/amx/products.hpp"
#include "dot/statistics.hpp"
#include "dot/vectors.hpp"

namespace dot {

#ifdef DOT_MATRIX_UNIT
template <typename S, typename T>
using Best = std::conditional_t<std::is_same_v<T, float>, Matrix<S>, Vectors<S, T>>;
#else
template <typename S, typename T>
using Best = Vectors<S, T>;
#endif

}  // namespace dot

#define REGARD_DOT(NAME, S, T)                                                         \
    extern "C" void dot_forward_##NAME(const dot::Call* call, double scale) {          \
        dot::forward<S, T, dot::Best<S, T>>(*call, scale);                             \
    }                                                                                  \
    extern "C" void dot_backward_##NAME(const dot::Call* call, double scale) {         \
        dot::backward<S, T, dot::Best<S, T>>(*call, scale);                            \
    }                                                                                  \
    extern "C" void dot_statistics_##NAME(const dot::Call* call, double scale) {       \
        dot::statistics<S, T, dot::Best<S, T>>(*call, scale);                          \
    }
