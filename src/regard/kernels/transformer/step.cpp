// GELU with its slope, for training; and a whole stack's step of a single position, where all that counts is how fast
// its weights are read, once each.

#include <cmath>

#include "native/loops.hpp"

namespace {

using namespace loops;
constexpr int L = kLanes<float>;
using V = Vec<float>;

// --- GELU -----------------------------------------------------------------------------------------------------------

// Φ(x) = P(a standard normal number ≤ x), and φ(x). With a = |x|, Φ(−a) = e^(−a²/2) Q(1 / (1 + 0.26 a)), where Q is the
// polynomial without constant term that is relatively closest (5e-8) for all a whose exponential is a normal number.
struct Normal {
    V below, density;
};
inline Normal normal(V x) {
    constexpr float factors[] = {0.0307565720f, -0.1540131931f, 0.2538623839f, -0.1535840915f, 0.1627243946f,
                                 0.0502843752f, 0.1032185398f,  0.1029903837f, 0.1037606205f};
    V size = x < 0 ? -x : x;
    V falling = exponential<float>(x * x * -0.5f);
    V t = inverse<float>(0.26f * size + 1);
    V q = all<float>(factors[0]);
#pragma GCC unroll 8
    for (int i = 1; i < 9; ++i) q = q * t + factors[i];
    V tail = falling * (q * t);
    return {x < 0 ? tail : 1 - tail, falling * 0.3989422804014327f};
}
inline V gelu(V x) { return x * normal(x).below; }
// Of x Φ(x). φ is 0 where x is infinite, and 0 · ∞ would hide that the slope there is 1 or 0.
inline V slope(V x, Normal at) { return at.below + (at.density == 0 ? at.density : x * at.density); }

// to = work(one, other), a vector of numbers at a time; the remainder goes through a vector of its own.
template <typename Work>
inline void each(int64_t begin, int64_t end, const float* one, const float* other, float* to, const Work& work) {
    int64_t i = begin;
    for (; i + L <= end; i += L) store<float>(to + i, work(load(one + i), load(other + i)));
    if (i < end) {
        float first[L] = {}, second[L] = {}, made[L];
        std::copy(one + i, one + end, first);
        std::copy(other + i, other + end, second);
        store<float>(made, work(load(first), load(second)));
        std::copy(made, made + (end - i), to + i);
    }
}

// --- a step of one position -----------------------------------------------------------------------------------------

float dot(int64_t size, const float* a, const float* b) {
    V sums = {};
    int64_t i = 0;
    for (; i + L <= size; i += L) sums += load(a + i) * load(b + i);
    float total = sum<float>(sums);
    for (; i < size; ++i) total += a[i] * b[i];
    return total;
}

// y = W x + b for W as it lies by its outputs: kLanes rows at a time, whose sums are one vector.
void by_outputs(int64_t begin, int64_t end, int64_t inputs, const float* weight, const float* bias, const float* x,
                float* y) {
    int64_t o = begin;
    for (; o + L <= end; o += L) {
        V sums[L] = {};
        const float* rows = weight + o * inputs;
        int64_t i = 0;
        for (; i + L <= inputs; i += L) {
            V given = load(x + i);
#pragma GCC unroll 16
            for (int r = 0; r < L; ++r) sums[r] += given * load(rows + r * inputs + i);
        }
        V found = totals<float>(sums);
        for (; i < inputs; ++i)
            for (int r = 0; r < L; ++r) found[r] += x[i] * rows[r * inputs + i];
        store<float>(y + o, bias ? found + load(bias + o) : found);
    }
    for (; o < end; ++o) y[o] = dot(inputs, weight + o * inputs, x) + (bias ? bias[o] : 0);
}

// The same for W as it lies by its inputs: kRows long rows at a time are added to y, which stays in the nearest memory.
void by_inputs(int64_t begin, int64_t end, int64_t inputs, int64_t outputs, const float* weight, const float* bias,
               const float* x, float* y) {
    constexpr int64_t kRows = 8, kBlock = 4096;
    for (int64_t block = begin; block < end; block += kBlock) {
        int64_t last = std::min(end, block + kBlock);
        for (int64_t o = block; o < last; ++o) y[o] = bias ? bias[o] : 0;
        for (int64_t i = 0; i < inputs; i += kRows) {
            int64_t rows = std::min(kRows, inputs - i), o = block;
            const float* from = weight + i * outputs;
            if (rows == kRows)
                for (; o + L <= last; o += L) {
                    V sums = load(y + o);
#pragma GCC unroll 8
                    for (int r = 0; r < kRows; ++r) sums += x[i + r] * load(from + r * outputs + o);
                    store<float>(y + o, sums);
                }
            for (; o < last; ++o)
                for (int64_t r = 0; r < rows; ++r) y[o] += x[i + r] * from[r * outputs + o];
        }
    }
}

using Linear = abi::Linear<float>;
using Norm = abi::Norm<float>;
using Stack = abi::Stack<float>;

// y of a linear layer, whose weight (outputs × inputs) lies by its outputs or by its inputs.
void product_of(const Linear& layer, const float* x, float* y, int64_t threads) {
    share(layer.outputs, L, threads, layer.inputs * layer.outputs, [=](int64_t begin, int64_t end) {
        if (layer.transposed)
            by_inputs(begin, end, layer.inputs, layer.outputs, layer.weight, layer.bias, x, y);
        else
            by_outputs(begin, end, layer.inputs, layer.weight, layer.bias, x, y);
    });
}

// y of a norm of vectors.
void normalize(const Norm& norm, const float* x, float* y) {
    const int64_t size = norm.size;
    const float *weight = norm.weight, *bias = norm.bias;
    if (!weight) {
        std::copy(x, x + size, y);
        return;
    }
    double mean = 0, spread = 0;
    if (!norm.square) {
        for (int64_t i = 0; i < size; ++i) mean += x[i];
        mean /= size;
    }
    for (int64_t i = 0; i < size; ++i) spread += (x[i] - mean) * (x[i] - mean);
    float middle = float(mean), scale = float(1 / std::sqrt(spread / size + norm.epsilon));
    for (int64_t i = 0; i < size; ++i) y[i] = (x[i] - middle) * scale * weight[i] + (bias ? bias[i] : 0);
}

enum Activation { kRelu, kGelu, kSwiglu };

void activate(const Stack& stack, float* hidden) {
    int64_t size = stack.hidden;
    if (stack.activation == kGelu)
        each(0, size, hidden, hidden, hidden, [](V x, V) { return gelu(x); });
    else if (stack.activation == kRelu)
        each(0, size, hidden, hidden, hidden, [](V x, V) { return x < 0 ? V{} : x; });
    else
        each(0, size, hidden, hidden + size, hidden, [](V gate, V x) {
            // e^88 is the largest exponential; below −88 the gate is −0 in any case.
            V held = gate < -88 ? all<float>(-88) : gate;
            return gate / (1 + exponential<float>(-held)) * x;
        });
}

// What one head reads of the rows that it attends to, for one query; `weights` has room for a number a slot.
void read(int64_t slots, int64_t width, float scale, const float* query, const float* keys, const float* values,
          const float* bias, float* weights, float* context) {
    by_outputs(0, slots, width, keys, nullptr, query, weights);
    float most = -std::numeric_limits<float>::infinity();
    for (int64_t s = 0; s < slots; ++s) {
        weights[s] = weights[s] * scale + (bias ? bias[s] : 0);
        most = weights[s] <= most ? most : weights[s];  // a NaN shows in the total
    }
    each(0, slots, weights, weights, weights, [=](V x, V) { return exponential<float>(x - most); });
    float total = 0;
    for (int64_t s = 0; s < slots; ++s) total += weights[s];
    // Values are stored by their inputs: the sum runs over slots.
    by_inputs(0, width, slots, width, values, nullptr, weights, context);
    for (int64_t i = 0; i < width; ++i) context[i] /= total;
}

void add(int64_t size, const float* more, float* x) {
    for (int64_t i = 0; i < size; ++i) x[i] += more[i];
}

// x becomes what the stack makes of it. The keys and values of one layer and head lie in rows of `width` numbers; `slots`
// are attended to, the last is new. `shown` receives each layer's queries and what its attention adds, dim numbers each;
// `bias` is null or has a number for each head and slot.
void step(const abi::Past<float>& call, float* x) {
    const Stack* stack = call.stack;
    const int64_t slots = call.slots, threads = call.threads, *apart = call.states_strides;
    int64_t dim = stack->dim, width = stack->width, together = (stack->heads + 2 * stack->key_heads) * width;
    int64_t doubled = stack->activation == kSwiglu ? 2 : 1;
    std::vector<float> room(2 * dim + together + doubled * stack->hidden + slots);
    float *normed = room.data(), *added = normed + dim, *made = added + dim, *hidden = made + together;
    float* weights = hidden + doubled * stack->hidden;
    for (int64_t l = 0; l < stack->layers; ++l) {
        const abi::Layer<float>& layer = stack->each[l];
        float *query = call.shown + 2 * l * dim, *attended = query + dim;
        if (stack->pre) normalize(layer.attention_norm, x, normed);
        product_of(layer.projection, stack->pre ? normed : x, made, threads);
        std::copy(made, made + dim, query);
        for (int64_t h = 0; h < stack->key_heads; ++h) {
            float* keys = call.states + l * apart[1] + h * apart[3];
            float *values = keys + apart[2], *fresh = made + dim + h * width;
            std::copy(fresh, fresh + width, keys + (slots - 1) * width);
            fresh += stack->key_heads * width;
            std::copy(fresh, fresh + width, values + (slots - 1) * width);
            int64_t group = stack->heads / stack->key_heads;
            for (int64_t q = h * group; q < (h + 1) * group; ++q)
                read(slots, width, float(stack->scale), query + q * width, keys, values,
                     call.bias ? call.bias + q * slots : nullptr, weights, normed + q * width);
        }
        product_of(layer.output, normed, attended, threads);
        add(dim, attended, x);
        if (!stack->pre) normalize(layer.attention_norm, x, x);
        if (stack->pre) normalize(layer.feed_forward_norm, x, normed);
        product_of(layer.widening, stack->pre ? normed : x, hidden, threads);
        activate(*stack, hidden);
        product_of(layer.narrowing, hidden, added, threads);
        add(dim, added, x);
        if (!stack->pre) normalize(layer.feed_forward_norm, x, x);
    }
    normalize(stack->norm, x, x);
}

// Room for vectors may be lacking: see `share`, which reports it.
template <typename Work>
void safely(const Work& work) {
    share(1, 1, 1, 0, [&](int64_t, int64_t) { work(); });
}

}  // namespace

extern "C" {

// y = gelu(x), and x becomes its slope there.
void gelu_and_slope_float32(const abi::GeluAndSlope<float>& call) {
    share(call.size, L, call.threads, call.size * 16, [x = call.x, y = call.y](int64_t begin, int64_t end) {
        auto one = [](float* from, float* to) {
            V given = load(from);
            Normal at = normal(given);
            store<float>(to, given * at.below);
            store<float>(from, slope(given, at));
        };
        int64_t i = begin;
        for (; i + L <= end; i += L) one(x + i, y + i);
        if (i < end) {
            float from[L] = {}, to[L];
            std::copy(x + i, x + end, from);
            one(from, to);
            std::copy(from, from + (end - i), x + i);
            std::copy(to, to + (end - i), y + i);
        }
    });
}

void stack_step_float32(const abi::StackStep<float>& call) {
    safely([&] { step(call, call.x); });
}

// The logits after one word more: its vector, times `scale` and with `place` (or null) or its learned place added, goes
// through the stack.
void language_step_float32(const abi::LanguageStep<float>& call) {
    safely([&] {
        const abi::Words<float>& words = *call.words;
        const int64_t dim = words.dim, column = words.table_strides[1];
        std::vector<float> x(dim);
        const float *vector = words.table + call.word * words.table_strides[0], *place = call.place;
        if (!place && words.places) place = words.places + call.position * dim;
        float scale = float(words.scale);
        for (int64_t i = 0; i < dim; ++i) x[i] = vector[i * column] * scale + (place ? place[i] : 0);
        step(call, x.data());
        product_of(words.readout, x.data(), call.logits, call.threads);
    });
}

}  // extern "C"
