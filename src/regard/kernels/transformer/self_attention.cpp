// Attention of a sequence to itself, from the one product that made its queries, keys and values, and the gradients back
// into that product's: nothing is put apart before, and nothing together after.
//
// For sequences so short that all scores of a strip of queries lie near: a row's maximum is known before its weights are
// made. The backward pass makes the weights again. Scores are logarithms to the base 2.

#include <cmath>

#include "dot/pack.hpp"
#include "native/loops.hpp"

namespace {

using namespace loops;
using dot::Buffer;
using dot::kNever;
using dot::kStrip;
constexpr int L = kLanes<float>;
constexpr int64_t kPanel = dot::kPanel<float>, kRows = 4 * kStrip;  // of a block, on the backward pass
using V = Vec<float>;

struct Call : abi::SelfAttentionCall<float> {
    int64_t line() const { return (heads + 2 * key_heads) * width; }
    int64_t across() const { return heads * width; }
    int64_t room() const { return (size + kPanel - 1) / kPanel * kPanel; }
    int64_t stride() const { return room() + L; }  // of scores: rows do not lie whole pages apart
    // Keys that some rows attend to, the last of which is given.
    int64_t visible_keys(int64_t last) const { return causal ? last + 1 : size; }
};

inline void rows(const float* from, int64_t step, int64_t count, int64_t width, float* to, int64_t to_step) {
    for (int64_t r = 0; r < count; ++r)
        for (int64_t c = 0; c < width; c += L) store<float>(to + r * to_step + c, load(from + r * step + c));
}

// Keys or values of one head in panels, transposed, times a factor.
void transposed(const Call& call, const float* from, float factor, float* to) {
    dot::transposed_panels_of<float, float>(from, call.line(), 1, call.size, call.width, to);
    if (factor != 1)
        for (int64_t i = 0; i < call.room() * call.width; i += L) store<float>(to + i, load(to + i) * factor);
}

// The products of `count` ≤ kStrip rows with the first `span` of what lies in panels.
void products(const Call& call, const float* from, int64_t count, int64_t span, const float* panels, float* to) {
    for (int64_t c = 0; c < span; c += kPanel)
        multiply<float, false>(count, kPanel, call.width, from, call.width, 1, panels + c * call.width, kPanel, to + c,
                               call.stride());
}

// Scores from number c of a row on, −inf from number `span` on. (Written there they could not be read at once.)
inline V visible(const float* scores, int64_t c, int64_t span) {
    if (c + L <= span) return load(scores + c);
    Wide<float>::Integers lanes;
    for (int i = 0; i < L; ++i) lanes[i] = i;
    return lanes < int32_t(span - c) ? load(scores + c) : all<float>(kNever<float>);
}

inline float largest_of(const float* scores, int64_t span) {
    V most = all<float>(kNever<float>);
    for (int64_t c = 0; c < span; c += L) most = larger<float>(most, visible(scores, c, span));
    return largest<float>(most);
}

inline int64_t whole_vectors(int64_t size) { return (size + L - 1) / L * L; }

void forward_head(const Call& call, float* contexts, float* statistics, int64_t item, int64_t head, const float* keys,
                  const float* values, float* room) {
    float *query = room, *scores = query + kStrip * call.width;
    const float* from = call.made + item * call.size * call.line() + head * call.width;
    float* context = contexts + item * call.size * call.across() + head * call.width;
    float *tops = statistics + (item * call.heads + head) * 2 * call.size, *inverses = tops + call.size;
    for (int64_t first = 0; first < call.size; first += kStrip) {
        const int64_t count = std::min(kStrip, call.size - first), span = call.visible_keys(first + count - 1);
        const int64_t end = whole_vectors(span);
        rows(from + first * call.line(), call.line(), count, call.width, query, call.width);
        products(call, query, count, span, keys, scores);
        for (int64_t r = 0; r < count; ++r) {
            float* row = scores + r * call.stride();
            const int64_t own = call.visible_keys(first + r);
            const float most = largest_of(row, own), safe = most > kNever<float> ? most : most == most ? 0 : most;
            V total = {};
            for (int64_t c = 0; c < end; c += L) {
                V weight = power_of_two<float>(visible(row, c, own) - safe);
                store<float>(row + c, weight);
                total += weight;
            }
            const float sum = halved<float>(total);
            tops[first + r] = safe;
            inverses[first + r] = sum == 0 ? 0 : 1 / sum;
        }
        float* to = context + first * call.across();
        multiply<float, false>(count, call.width, span, scores, call.stride(), 1, values, call.width, to, call.across());
        for (int64_t r = 0; r < count; ++r)
            for (int64_t c = 0; c < call.width; c += L)
                store<float>(to + r * call.across() + c, load(to + r * call.across() + c) * inverses[first + r]);
    }
}

void forward(const abi::SelfAttentionForward<float>& given) {
    const Call call{given};
    const float scale = float(call.scale);
    const int64_t group = call.heads / call.key_heads;
    const int64_t cost = 4 * call.batch * call.heads * call.size * call.size * call.width;
    share(call.batch * call.key_heads, 1, call.threads, cost, [&](int64_t begin, int64_t end) {
        Buffer<float> keys(call.room() * call.width), values(call.size * call.width);
        Buffer<float> room(kStrip * (call.width + call.stride()));
        for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t item = unit / call.key_heads, key_head = unit % call.key_heads;
            const float* key = call.made + item * call.size * call.line() + (call.heads + key_head) * call.width;
            transposed(call, key, scale * float(dot::kLog2e), keys.at);
            rows(key + call.key_heads * call.width, call.line(), call.size, call.width, values.at, call.width);
            for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head)
                forward_head(call, given.context, given.statistics, item, head, keys.at, values.at, room.at);
        }
    });
}

// What one key head's backward pass works in.
struct Work {
    Buffer<float> transposed_keys, transposed_values, keys, to_keys, to_values, query, grad, weights, slopes;

    explicit Work(const Call& call)
        : transposed_keys(call.room() * call.width),
          transposed_values(call.room() * call.width),
          keys(call.size * call.width),
          to_keys(call.size * call.width),
          to_values(call.size * call.width),
          query(kRows * call.width),
          grad(kRows * call.width),
          weights(kRows * call.stride()),
          slopes(kRows * call.stride()) {}
};

// Scores of a strip become weights, and what comes from grad them the slopes of the scores, times scale.
void weigh(float scale, int64_t span, int64_t end, float top, float inverse, float through, float* row, float* slope) {
    const bool nonfinite = inverse != inverse;
    for (int64_t c = 0; c < end; c += L) {
        V score = visible(row, c, span), weight = power_of_two<float>(score - top) * inverse;
        if (nonfinite) weight = score == kNever<float> ? V{} : weight;
        store<float>(row + c, weight);
        // Where there is no weight nothing passes, whatever comes from grad.
        store<float>(slope + c, weight == 0 ? V{} : weight * (load(slope + c) - through) * scale);
    }
}

void backward_head(const Call& call, const abi::SelfAttentionBackward<float>& given, int64_t item, int64_t head,
                   Work& work) {
    const float scale = float(call.scale);
    const int64_t width = call.width, stride = call.stride();
    const int64_t line = item * call.size * call.line() + head * width;
    const int64_t place = item * call.size * call.across() + head * width;
    const float* tops = given.statistics + (item * call.heads + head) * 2 * call.size;
    const float* inverses = tops + call.size;
    for (int64_t first = 0; first < call.size; first += kRows) {
        const int64_t count = std::min(kRows, call.size - first), all_visible = call.visible_keys(first + count - 1);
        rows(call.made + line + first * call.line(), call.line(), count, width, work.query.at, width);
        rows(given.upstream + place + first * call.across(), call.across(), count, width, work.grad.at, width);
        for (int64_t strip = 0; strip < count; strip += kStrip) {
            const int64_t here = std::min(kStrip, count - strip), span = call.visible_keys(first + strip + here - 1);
            const int64_t end = whole_vectors(span);
            float *weights = work.weights.at + strip * stride, *slopes = work.slopes.at + strip * stride;
            products(call, work.query.at + strip * width, here, span, work.transposed_keys.at, weights);
            products(call, work.grad.at + strip * width, here, span, work.transposed_values.at, slopes);
            for (int64_t r = 0; r < here; ++r) {
                const int64_t row = first + strip + r;
                const float *read = given.context + place + row * call.across(), *grad = work.grad.at + (strip + r) * width;
                V total = {};
                for (int64_t c = 0; c < width; c += L) total += load(read + c) * load(grad + c);
                weigh(scale, call.visible_keys(row), end, tops[row], inverses[row], halved<float>(total), weights + r * stride,
                      slopes + r * stride);
            }
            multiply<float, false>(here, width, span, slopes, stride, 1, work.keys.at, width,
                                   given.to_made + line + (first + strip) * call.line(), call.line());
        }
        // Keys' and values' gradients: kStrip of them at a time, from the strips of queries that attend to any of these.
        for (int64_t key = 0; key < all_visible; key += kStrip) {
            const int64_t keys = std::min(kStrip, all_visible - key);
            const int64_t from = call.causal ? std::max<int64_t>(0, key - first) / kStrip * kStrip : 0;
            multiply<float, true>(keys, width, count - from, work.weights.at + from * stride + key, 1, stride,
                                  work.grad.at + from * width, width, work.to_values.at + key * width, width);
            multiply<float, true>(keys, width, count - from, work.slopes.at + from * stride + key, 1, stride,
                                  work.query.at + from * width, width, work.to_keys.at + key * width, width);
        }
    }
}

void backward(const abi::SelfAttentionBackward<float>& given) {
    const Call call{given};
    const int64_t group = call.heads / call.key_heads, width = call.width;
    const int64_t cost = 10 * call.batch * call.heads * call.size * call.size * width;
    share(call.batch * call.key_heads, 1, call.threads, cost, [&](int64_t begin, int64_t end) {
        Work work(call);
        for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t item = unit / call.key_heads, key_head = unit % call.key_heads;
            const int64_t key = item * call.size * call.line() + (call.heads + key_head) * width;
            const int64_t value = key + call.key_heads * width;
            transposed(call, call.made + key, float(call.scale) * float(dot::kLog2e), work.transposed_keys.at);
            transposed(call, call.made + value, 1, work.transposed_values.at);
            rows(call.made + key, call.line(), call.size, width, work.keys.at, width);
            std::fill_n(work.to_keys.at, call.size * width, 0.0f);
            std::fill_n(work.to_values.at, call.size * width, 0.0f);
            for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head)
                backward_head(call, given, item, head, work);
            rows(work.to_keys.at, width, call.size, width, given.to_made + key, call.line());
            rows(work.to_values.at, width, call.size, width, given.to_made + value, call.line());
        }
    });
}

}  // namespace

extern "C" void self_attention_forward_float32(const abi::SelfAttentionForward<float>& call) { forward(call); }
extern "C" void self_attention_backward_float32(const abi::SelfAttentionBackward<float>& call) { backward(call); }
