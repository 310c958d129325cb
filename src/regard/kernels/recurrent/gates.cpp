// What a step of a GRU or an LSTM computes beside its matrix products, forward and backward, in one pass over each row.

#include "native/loops.hpp"

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

// work(input, output) over a row, in whole vectors; the remainder through copies as long as a vector.
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

// r = σ(a_r + b_r), z = σ(a_z + b_z), n = tanh(a_n + r b_n), and (1 − z) n + z h is next: `sums` is a, `given` is b,
// `state` h. `gates` may be where a is; `kept` is filled with b_n. `bias` is null, or is added first: to r's and
// z's sums, to a_n and to b_n.
template <typename T>
void gru(const abi::Gru<T>& call) {
    const int64_t width = call.width;
    const T* bias = call.bias;
    auto step = [](Vec<T> a, Vec<T> b, Vec<T> into, Vec<T> from, Vec<T> before, Vec<T>* out) {
        Vec<T> reset = sigmoid<T>(a), update = sigmoid<T>(b), candidate = tanh_of<T>(into + reset * from);
        out[0] = reset, out[1] = update, out[2] = candidate, out[3] = from;
        out[4] = candidate + update * (before - candidate);
    };
    share(call.rows, 1, call.threads, call.rows * width * kCost, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const T *a = call.sums + row * 3 * width, *b = call.given + row * 3 * width, *h = call.state + row * width;
            T* own = call.gates + row * 3 * width;
            T* const to[] = {own, own + width, own + 2 * width, call.kept + row * width, call.next + row * width};
            if (bias)
                across<T, 11, 5>(width,
                                 {a, a + width, a + 2 * width, b, b + width, b + 2 * width, h, bias, bias + width,
                                  bias + 2 * width, bias + 3 * width},
                                 to, [=](const Vec<T>* in, Vec<T>* out) {
                                     step(in[0] + in[3] + in[7], in[1] + in[4] + in[8], in[2] + in[9], in[5] + in[10],
                                          in[6], out);
                                 });
            else
                across<T, 7, 5>(width, {a, a + width, a + 2 * width, b, b + width, b + 2 * width, h}, to,
                                [=](const Vec<T>* in, Vec<T>* out) {
                                    step(in[0] + in[3], in[1] + in[4], in[2], in[5], in[6], out);
                                });
        }
    });
}

// `hidden` is the gradient of what was next, and becomes that of the state, but for what comes through b. `entering`
// becomes that of a, and `carried` that of b_n. That of b_r and b_z is that of a_r and a_z; `others` is null or gets it.
template <typename T>
void gru_backward(const abi::GruBackward<T>& call) {
    const int64_t width = call.width;
    auto step = [](const Vec<T>* in, Vec<T>* out) {
        Vec<T> reset = in[0], update = in[1], candidate = in[2], above = in[5];
        out[2] = above * (1 - candidate * candidate) * (1 - update);
        out[1] = above * (in[4] - candidate) * update * (1 - update);
        out[0] = out[2] * in[3] * reset * (1 - reset);
        out[3] = out[2] * reset;
        out[4] = above * update;
    };
    share(call.rows, 1, call.threads, call.rows * width * kCost, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const T *own = call.gates + row * 3 * width, *b = call.kept + row * width, *h = call.state + row * width;
            T *into = call.entering + row * call.entering_strides[0], *slope = call.hidden + row * width;
            T* back = call.carried + row * call.carried_strides[0];
            across<T, 6, 5>(width, {own, own + width, own + 2 * width, b, h, slope},
                            {into, into + width, into + 2 * width, back, slope}, step);
            if (call.others) std::copy(into, into + 2 * width, call.others + row * call.others_strides[0]);
        }
    });
}

// i, f, o = σ and g = tanh of the sums in `gates`, whose place they take; `kept` = f c + i g, `next` = o tanh(kept).
template <typename T>
void lstm(const abi::Lstm<T>& call) {
    const int64_t width = call.width;
    share(call.rows, 1, call.threads, call.rows * width * kCost, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            T* own = call.gates + row * 4 * width;
            across<T, 5, 6>(
                width, {own, own + width, own + 2 * width, own + 3 * width, call.memory + row * width},
                {own, own + width, own + 2 * width, own + 3 * width, call.kept + row * width, call.next + row * width},
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
void lstm_backward(const abi::LstmBackward<T>& call) {
    const int64_t width = call.width;
    share(call.rows, 1, call.threads, call.rows * width * kCost, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const T* own = call.gates + row * 4 * width;
            T *to = call.into + row * 4 * width, *cell = call.slope + row * width;
            across<T, 8, 5>(width,
                            {own, own + width, own + 2 * width, own + 3 * width, call.memory + row * width,
                             call.kept + row * width, call.hidden + row * width, cell},
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

#define REGARD_GATES(NAME, T)                                                                              \
    extern "C" void gru_##NAME(const abi::Gru<T>& call) { gru(call); }                                     \
    extern "C" void gru_backward_##NAME(const abi::GruBackward<T>& call) { gru_backward(call); }           \
    extern "C" void lstm_##NAME(const abi::Lstm<T>& call) { lstm(call); }                                  \
    extern "C" void lstm_backward_##NAME(const abi::LstmBackward<T>& call) { lstm_backward(call); }

REGARD_GATES(float32, float)
REGARD_GATES(float64, double)
