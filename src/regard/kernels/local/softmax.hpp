// Softmax over a window around each query's center, and the prediction of the centers, with the backward pass of both.
//
// A window holds the rows within a radius of the center that lie before the item's length. Each query goes through its
// window once: scores, softmax, Gaussian, and what it reads; rows outside are not touched. Queries are taken in the
// order of their windows, so that rows that several of them attend to are read from a cache (see softmax.py).

#pragma once

#include <cmath>

#include "local/window_products.hpp"

namespace local_softmax {

using namespace local_rows;

template <typename T>
using Call = abi::LocalCall<T>;

struct Span {
    int64_t begin, end;  // rows that are attended to
};

template <typename T>
T reach_of(const Call<T>& s, T center) {
    return T(s.radius) + T(8 * s.epsilon) * std::max(std::abs(center), T(1));
}

// Where the window begins, whatever the center is.
template <typename T>
int64_t first_of(const Call<T>& s, T center) {
    T first = std::floor(center - reach_of(s, center));
    int64_t last = s.rows - s.window;
    return first > 0 ? first < T(last) ? int64_t(first) : last : 0;
}

// The rows of it that are attended to; of a center that is NaN none.
template <typename T>
Span span_of(const Call<T>& s, T center, int64_t first, int64_t length) {
    T reach = reach_of(s, center);
    int64_t begin = first, end = std::max(begin, std::min(first + s.window, length));
    while (begin < end && !(std::abs(T(begin) - center) <= reach)) ++begin;
    while (end > begin && !(std::abs(T(end - 1) - center) <= reach)) --end;
    return {begin, end};
}

// Where windows begin, and the queries of each item in this order.
template <typename T>
void arrange(const Call<T>& s, const T* center, int64_t* first, int64_t* order) {
    for (int64_t b = 0; b < s.batch; ++b, center += s.queries, first += s.queries, order += s.queries) {
        for (int64_t q = 0; q < s.queries; ++q) {
            first[q] = first_of(s, center[q]);
            order[q] = first[q] * s.queries + q;
        }
        std::sort(order, order + s.queries);
        for (int64_t q = 0; q < s.queries; ++q) order[q] %= s.queries;
    }
}

// weight = softmax(score) over count of them; the numbers beyond, up to a whole vector, are overwritten
template <typename T>
void softmax(T* score, int64_t count, T* weight) {
    constexpr int L = kLanes<T>;
    T most = -std::numeric_limits<T>::infinity();
    for (int64_t w = 0; w < count; ++w) most = std::max(most, score[w]);
    for (int64_t w = count; w < whole<T>(count); ++w) score[w] = -std::numeric_limits<T>::infinity();
    Vec<T> sums = {};
    for (int64_t w = 0; w < count; w += L) {
        Vec<T> part = exponential<T>(load(score + w) - most);
        store(weight + w, part);
        sums += part;
    }
    T share = 1 / halved<T>(sums);
    for (int64_t w = 0; w < count; w += L) store(weight + w, load(weight + w) * share);
}

// exp(−(row − center)² / 2σ²)
template <typename T>
void gaussian(const Call<T>& s, T center, Span visible, T* out) {
    constexpr int L = kLanes<T>;
    T factor = s.sigma > 0 ? T(-1 / (2 * s.sigma * s.sigma)) : T(0);
    int64_t count = visible.end - visible.begin;
    for (int64_t w = 0; w < whole<T>(count); ++w) {
        T distance = w < count ? T(visible.begin + w) - center : T(0);
        out[w] = distance * distance * factor;
    }
    for (int64_t w = 0; w < count; w += L) store(out + w, exponential<T>(load(out + w)));
}

// context (batch, queries, value_width), scores (batch, queries, window) with −inf where nothing is attended to. Whether all
// that is attended to, and all queries, are finite.
template <typename T>
bool forward(const abi::LocalAttend<T>& s) {
    const T *center = s.center, *left = s.left, *key = s.key, *value = s.value;
    T *context = s.context, *scores = s.scores;
    const int64_t *lengths = s.lengths, *first = s.first, *order = s.order;
    arrange(s, center, s.first, s.order);
    std::atomic<bool> finite{true};
    int64_t all = s.batch * s.queries;
    share(all, 1, s.threads, all * s.window * (s.width + s.value_width), [&](int64_t from, int64_t to) {
        int64_t room = whole<T>(s.window);
        std::vector<T> held(3 * room);
        T *score = held.data(), *weight = score + room, *near = weight + room;
        for (int64_t at = from; at < to; ++at) {
            int64_t b = at / s.queries, q = b * s.queries + order[at];
            Span visible = span_of(s, center[q], first[q], lengths[b]);
            int64_t count = visible.end - visible.begin;
            dots(left + q * s.width, key + b * s.key_strides[0] + visible.begin * s.key_strides[1], s.key_strides[1], count, s.width, score);
            for (int64_t w = 0; w < count; ++w) score[w] *= T(s.scale);
            T* own_scores = scores + q * s.window;
            std::fill(own_scores, own_scores + s.window, -std::numeric_limits<T>::infinity());
            std::copy(score, score + count, own_scores + (visible.begin - first[q]));
            T found = center[q] * T(0) + (count ? nonfinite(score, count) : nonfinite(left + q * s.width, s.width));
            softmax(score, count, weight);
            gaussian(s, center[q], visible, near);
            for (int64_t w = 0; w < count; ++w) weight[w] *= near[w];
            T* into = context + q * s.value_width;
            mix(weight, value + b * s.value_strides[0] + visible.begin * s.value_strides[1], s.value_strides[1], count, s.value_width, into);
            if (!(found + nonfinite(into, s.value_width) == 0)) finite = false;
        }
    });
    return finite;
}

// The gradients of left, key, value and center, from those of context and scores; each of both and of the first three
// may be null. Threads share items, whose rows no other one has.
template <typename T>
void backward(const abi::LocalAttendBackward<T>& s) {
    const T *center = s.center, *left = s.left, *key = s.key, *value = s.value, *scores = s.scores;
    const T *above = s.above, *above_scores = s.above_scores;
    T *to_left = s.to_left, *to_key = s.to_key, *to_value = s.to_value, *to_center = s.to_center;
    const int64_t *lengths = s.lengths, *first = s.first, *order = s.order;
    share(s.batch, 1, s.threads, s.batch * s.queries * s.window * (s.width + s.value_width) * 2,
          [&](int64_t from, int64_t to) {
              int64_t room = whole<T>(s.window);
              std::vector<T> held(4 * room);
              T *slope = held.data(), *weight = slope + room, *near = weight + room, *score = near + room;
              for (int64_t b = from; b < to; ++b) {
                  int64_t clean = 0;  // so many rows of the gradients hold something
                  auto zero = [&](T* to, int64_t end, int64_t width) {
                      if (to) std::fill(to + (b * s.rows + clean) * width, to + (b * s.rows + end) * width, T(0));
                  };
                  auto clear = [&](int64_t end) {
                      if (end <= clean) return;
                      zero(to_key, end, s.width);
                      zero(to_value, end, s.value_width);
                      clean = end;
                  };
                  for (int64_t at = b * s.queries; at < (b + 1) * s.queries; ++at) {
                      int64_t q = b * s.queries + order[at];
                      Span visible = span_of(s, center[q], first[q], lengths[b]);
                      int64_t count = visible.end - visible.begin, skipped = visible.begin - first[q];
                      clear(visible.end);
                      std::copy(scores + q * s.window + skipped, scores + q * s.window + skipped + count, score);
                      softmax(score, count, weight);
                      gaussian(s, center[q], visible, near);
                      T through = 0, towards = 0;
                      std::fill(slope, slope + count, T(0));
                      if (above) {
                          const T* given = above + q * s.value_width;
                          dots(given, value + b * s.value_strides[0] + visible.begin * s.value_strides[1], s.value_strides[1], count,
                               s.value_width, slope);
                          for (int64_t w = 0; w < count; ++w) {
                              T part = slope[w] * weight[w] * near[w];
                              through += part;
                              towards += part * (T(visible.begin + w) - center[q]);
                          }
                          if (to_value) {
                              for (int64_t w = 0; w < count; ++w) score[w] = weight[w] * near[w];
                              spread(score, given, s.value_width, count, s.value_width,
                                     to_value + (b * s.rows + visible.begin) * s.value_width);
                          }
                      }
                      if (to_center) to_center[q] = s.sigma > 0 ? towards / T(s.sigma * s.sigma) : T(0);
                      for (int64_t w = 0; w < count; ++w) {
                          slope[w] = weight[w] * (slope[w] * near[w] - through);
                          if (above_scores) slope[w] += above_scores[q * s.window + skipped + w];
                          slope[w] *= T(s.scale);
                      }
                      if (to_left)
                          mix(slope, key + b * s.key_strides[0] + visible.begin * s.key_strides[1], s.key_strides[1], count, s.width,
                              to_left + q * s.width);
                      if (to_key)
                          spread(slope, left + q * s.width, s.width, count, s.width,
                                 to_key + (b * s.rows + visible.begin) * s.width);
                  }
                  clear(s.rows);
              }
          });
}

// --- the prediction of centers --------------------------------------------------------------------------------------

// tanh, to about one unit in the last place of 1
template <typename T>
Vec<T> tangent(Vec<T> x) {
    Vec<T> size = x < 0 ? -x : x;
    Vec<T> power = power_of_two<T>(size * T(-2.88539008177792681));  // e^(−2 |x|)
    Vec<T> found = (1 - power) * inverse<T>(1 + power);
    return x < 0 ? -found : found;
}

// center (rows) = length · sigmoid(vector · tanh(hidden)). Whether all of hidden is finite.
template <typename T>
bool predict(const abi::LocalPredict<T>& s) {
    const T *hidden = s.hidden, *vector = s.vector;
    const int64_t *lengths = s.lengths, rows = s.batch * s.queries;
    T* center = s.center;
    constexpr int L = kLanes<T>;
    std::atomic<bool> finite{true};
    share(rows, 1, s.threads, rows * s.width * 16, [&](int64_t from, int64_t to) {
        Vec<T> nonfinite = {};
        for (int64_t at = from; at < to; ++at) {
            const T* row = hidden + at * s.width;
            Vec<T> sums = {};
            int64_t c = 0;
            for (; c + L <= s.width; c += L) {
                Vec<T> x = load(row + c);
                nonfinite += x * T(0);
                sums += load(vector + c) * tangent<T>(x);
            }
            T total = halved<T>(sums);
            for (; c < s.width; ++c) {
                nonfinite[0] += row[c] * T(0);
                total += vector[c] * std::tanh(row[c]);
            }
            center[at] = T(lengths[at / s.queries]) / (1 + std::exp(-total));
        }
        if (!(sum<T>(nonfinite) == 0)) finite = false;
    });
    return finite;
}

constexpr int kParts = 16;  // of rows, whose gradients to the vector are added up at last: so many for any threads

// The gradients of hidden, and of the vector in kParts parts.
template <typename T>
void predict_backward(const abi::LocalPredictBackward<T>& s) {
    const T *hidden = s.hidden, *vector = s.vector, *center = s.center, *above = s.above;
    const int64_t *lengths = s.lengths, rows = s.batch * s.queries;
    T *to_hidden = s.to_hidden, *to_vector = s.to_vector;
    constexpr int L = kLanes<T>;
    share(kParts, 1, s.threads, rows * s.width * 16, [&](int64_t from, int64_t to) {
        for (int64_t part = from; part < to; ++part) {
            T* into = to_vector + part * s.width;
            std::fill(into, into + s.width, T(0));
            for (int64_t at = rows * part / kParts; at < rows * (part + 1) / kParts; ++at) {
                T length = T(lengths[at / s.queries]), slope = 0;
                if (length > 0) slope = above[at] * center[at] * (1 - center[at] / length);
                const T* row = hidden + at * s.width;
                T* out = to_hidden + at * s.width;
                int64_t c = 0;
                for (; c + L <= s.width; c += L) {
                    Vec<T> found = tangent<T>(load(row + c));
                    store(into + c, load(into + c) + slope * found);
                    store(out + c, slope * load(vector + c) * (1 - found * found));
                }
                for (; c < s.width; ++c) {
                    T found = std::tanh(row[c]);
                    into[c] += slope * found;
                    out[c] = slope * vector[c] * (1 - found * found);
                }
            }
        }
    });
}

}  // namespace local_softmax
