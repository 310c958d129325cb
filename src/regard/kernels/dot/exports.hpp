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

inline int64_t address(const void* of) { return reinterpret_cast<int64_t>(of); }

template <typename S, typename T, typename Given>
void run_forward(const Given& given) {
    Call call(given);
    call.context = address(given.context), call.normalizer = address(given.normalizer);
    forward<S, T, Best<S, T>>(call, call.scale);
}

template <typename S, typename T, typename Given>
void run_backward(const Given& given) {
    Call call(given);
    call.context = address(given.context), call.normalizer = address(given.normalizer);
    call.upstream = given.upstream;
    call.to_query = address(given.to_query), call.to_key = address(given.to_key);
    call.to_value = address(given.to_value);
    call.to_bias = given.to_bias, call.bias_size = given.bias_size;
    backward<S, T, Best<S, T>>(call, call.scale);
}

template <typename S, typename T, typename Given>
void run_statistics(const Given& given) {
    Call call(given);
    call.context = address(given.context), call.top = given.top;
    call.entropy = address(given.entropy), call.maximum = address(given.maximum);
    call.received = address(given.received);
    call.top_weights = address(given.top_weights), call.top_keys = address(given.top_keys);
    statistics<S, T, Best<S, T>>(call, call.scale);
}

}  // namespace dot

// Of numbers that are declared as A, read as S and computed as T.
#define REGARD_DOT(NAME, A, S, T)                                                                                 \
    extern "C" void dot_forward_##NAME(const abi::DotForward<A>& call) { dot::run_forward<S, T>(call); }          \
    extern "C" void dot_backward_##NAME(const abi::DotBackward<A>& call) { dot::run_backward<S, T>(call); }       \
    extern "C" void dot_statistics_##NAME(const abi::DotStatistics<A>& call) { dot::run_statistics<S, T>(call); }
