// What a step of a GRU or an LSTM computes beside its matrix products, there and back, in one pass over each row.

#include "loops.hpp"

namespace {

using namespace loops;

// 1 / (1 + e^−x) and tanh x, to some units in the last place of 1.
template <typename T>
inline Vec<T> sigmoid(Vec<T> x) {
    Vec<T> power = exponential<T>(x < 0 ? x : -x);  // of −|x|
    return (x < 0 ? power : all<T>(1)) * inverse<T>(1 + power);
}
template <typename T>
inline Vec<T> tanh_of(Vec<T> x) {
    return 2 * sigmoid<T>(2 * x) - 1;
}

// work(what was read, what is to be written) over a row, in whole vectors; what is left by copies that are as long.
template <typename T, int kRead, int kWritten, typename Work>
inline void across(int64_t width, const T* const (&read)[kRead], T* const (&written)[kWritten], const Work& work) {
    constexpr int L = kLanes<T>;
    Vec<T> in[kRead], out[kWritten];
    int64_t i = 0;
    for (; i + L <= width; i += L) {
        for (int n = 0; n < kRead; ++n) in[n] = load(read[n] + i);
        work(in, out);
        for (int n = 0; n < kWritten; ++n) store<T>(written[n] + i, out[n]);
    }
    if (i == width) return;
    T last[L] = {};
    for (int n = 0; n < kRead; ++n) {
        std::copy(read[n] + i, read[n] + width, last);
        in[n] = load(last);
    }
    work(in, out);
    for (int n = 0; n < kWritten; ++n) {
        store<T>(last, out[n]);
        std::copy(last, last + (width - i), written[n] + i);
    }
}

constexpr int64_t kCost = 32;  // operations for each number of a state

// r = σ(a_r + b_r), z = σ(a_z + b_z), n = tanh(a_n + r b_n), and (1 − z) n + z h is next: `sums` is a, `given` with the
// bias b, `state` h. `gates` may be where a is. The bias' sum is kept in `given`; without one, `given` holds it already.
template <typename T>
void gru(int64_t rows, int64_t width, int64_t threads, const T* sums, T* given, const T* bias, const T* state, T* gates,
         T* next) {
    share(rows, 1, threads, rows * width * kCost, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const T* a = sums + row * 3 * width;
            T *b = given + row * 3 * width, *own = gates + row * 3 * width;
            if (bias)
                for (int64_t i = 0; i < 3 * width; ++i) b[i] += bias[i];
            across<T, 7, 4>(
                width, {a, a + width, a + 2 * width, b, b + width, b + 2 * width, state + row * width},
                {own, own + width, own + 2 * width, next + row * width}, [](const Vec<T>* in, Vec<T>* out) {
                    Vec<T> reset = sigmoid<T>(in[0] + in[3]), update = sigmoid<T>(in[1] + in[4]);
                    Vec<T> candidate = tanh_of<T>(in[2] + reset * in[5]);
                    out[0] = reset, out[1] = update, out[2] = candidate;
                    out[3] = candidate + update * (in[6] - candidate);
                });
        }
    });
}

// `hidden` is the gradient of what was next, and becomes that of the state, but for what comes through b. `entering` and
// `carried` become those of a and b.
template <typename T>
void gru_back(int64_t rows, int64_t width, int64_t threads, const T* gates, const T* given, const T* state, T* hidden,
              T* entering, T* carried) {
    share(rows, 1, threads, rows * width * kCost, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const T *own = gates + row * 3 * width, *b = given + row * 3 * width + 2 * width;
            T *into = entering + row * 3 * width, *back = carried + row * 3 * width, *slope = hidden + row * width;
            across<T, 6, 7>(
                width, {own, own + width, own + 2 * width, b, state + row * width, slope},
                {into, into + width, into + 2 * width, back, back + width, back + 2 * width, slope},
                [](const Vec<T>* in, Vec<T>* out) {
                    Vec<T> reset = in[0], update = in[1], candidate = in[2], above = in[5];
                    out[2] = above * (1 - candidate * candidate) * (1 - update);
                    out[1] = out[4] = above * (in[4] - candidate) * update * (1 - update);
                    out[0] = out[3] = out[2] * in[3] * reset * (1 - reset);
                    out[5] = out[2] * reset;
                    out[6] = above * update;
                });
        }
    });
}

// i, f, o = σ and g = tanh of the sums in `gates`, whose place they take; `kept` = f c + i g, `next` = o tanh(kept).
template <typename T>
void lstm(int64_t rows, int64_t width, int64_t threads, T* gates, const T* memory, T* kept, T* next) {
    share(rows, 1, threads, rows * width * kCost, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            T* own = gates + row * 4 * width;
            across<T, 5, 6>(
                width, {own, own + width, own + 2 * width, own + 3 * width, memory + row * width},
                {own, own + width, own + 2 * width, own + 3 * width, kept + row * width, next + row * width},
                [](const Vec<T>* in, Vec<T>* out) {
                    out[0] = sigmoid<T>(in[0]), out[1] = sigmoid<T>(in[1]);
                    out[2] = tanh_of<T>(in[2]), out[3] = sigmoid<T>(in[3]);
                    out[4] = out[1] * in[4] + out[0] * out[2];
                    out[5] = out[3] * tanh_of<T>(out[4]);
                });
        }
    });
}

// `hidden` and `slope` are the gradients of what was next and kept; the latter becomes that of the memory before. `into`
// becomes that of the sums.
template <typename T>
void lstm_back(int64_t rows, int64_t width, int64_t threads, const T* gates, const T* memory, const T* kept,
               const T* hidden, T* slope, T* into) {
    share(rows, 1, threads, rows * width * kCost, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const T* own = gates + row * 4 * width;
            T *to = into + row * 4 * width, *cell = slope + row * width;
            across<T, 8, 5>(width,
                            {own, own + width, own + 2 * width, own + 3 * width, memory + row * width,
                             kept + row * width, hidden + row * width, cell},
                            {to, to + width, to + 2 * width, to + 3 * width, cell},
                            [](const Vec<T>* in, Vec<T>* out) {
                                Vec<T> entering = in[0], forgetting = in[1], candidate = in[2], leaving = in[3];
                                Vec<T> above = in[6], shown = tanh_of<T>(in[5]);
                                Vec<T> total = in[7] + above * leaving * (1 - shown * shown);
                                out[3] = above * shown * leaving * (1 - leaving);
                                out[0] = total * candidate * entering * (1 - entering);
                                out[1] = total * in[4] * forgetting * (1 - forgetting);
                                out[2] = total * entering * (1 - candidate * candidate);
                                out[4] = total * forgetting;
                            });
        }
    });
}

}  // namespace

#define REGARD_GATES(name, T)                                                                                       \
    extern "C" void gru_##name(int64_t rows, int64_t width, int64_t threads, const T* sums, T* given, const T* bias, \
                               const T* state, T* gates, T* next) {                                                 \
        gru<T>(rows, width, threads, sums, given, bias, state, gates, next);                                        \
    }                                                                                                               \
    extern "C" void gru_back_##name(int64_t rows, int64_t width, int64_t threads, const T* gates, const T* given,   \
                                    const T* state, T* hidden, T* entering, T* carried) {                           \
        gru_back<T>(rows, width, threads, gates, given, state, hidden, entering, carried);                          \
    }                                                                                                               \
    extern "C" void lstm_##name(int64_t rows, int64_t width, int64_t threads, T* gates, const T* memory, T* kept,   \
                                T* next) {                                                                          \
        lstm<T>(rows, width, threads, gates, memory, kept, next);                                                   \
    }                                                                                                               \
    extern "C" void lstm_back_##name(int64_t rows, int64_t width, int64_t threads, const T* gates, const T* memory, \
                                     const T* kept, const T* hidden, T* slope, T* into) {                           \
        lstm_back<T>(rows, width, threads, gates, memory, kept, hidden, slope, into);                               \
    }

REGARD_GATES(float32, float)
REGARD_GATES(float64, double)
