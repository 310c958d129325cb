// softmax(scale · q kᵀ + bias) v and its gradients, without the table of queries × keys.
//
// Milakov & Gimelshein 2018 (a softmax whose maximum is corrected as it goes) and Dao et al. 2022 (tile by tile,
// made again on the way back). Keys and values are packed once for each head, whatever their types and steps.

#include "dot_backward.hpp"
#include "dot_call.hpp"
#include "dot_pack.hpp"
#include "dot_statistics.hpp"

namespace dot {
namespace {

// Scores so small need no maximum taken off: 2^±40, and values below 2^50, can be added up 2^30 times.
constexpr double kSmall = 40, kSmallValue = 1125899906842624;

// One block's way through the tiles: each row's maximum and sum.
template <typename T>
struct Softmax {
    T top[kMostRows];
    bool small[kMostRows];
    Vec<T> total[kMostRows];

    // No score is larger than the norms of its query and of the longest key together (Cauchy-Schwarz).
    Softmax(const T* query, int64_t rows, int64_t width, T longest) {
        for (int64_t r = 0; r < rows; ++r, query += width) {
            Vec<T> squares{};
            for (int64_t c = 0; c < width; c += kLanes<T>) squares += load(query + c) * load(query + c);
            small[r] = loops::sum<T>(squares) * longest <= T(kSmall * kSmall);
            top[r] = small[r] ? 0 : kNever<T>, total[r] = Vec<T>{};
        }
    }
    // Scores become weights under the maximum until now; says what weights until now are to be multiplied by.
    T row(int64_t r, T* scores, int64_t size) {
        if (small[r]) {
            Vec<T> sum = total[r];
            for (int64_t c = 0; c < size; c += kLanes<T>) {
                Vec<T> weight = loops::power_of_two<T>(load(scores + c));
                store(scores + c, weight);
                sum += weight;
            }
            total[r] = sum;
            return 1;
        }
        Vec<T> most = loops::all<T>(top[r]);
        for (int64_t c = 0; c < size; c += kLanes<T>) most = loops::larger<T>(most, load(scores + c));
        T old = top[r], now = loops::largest<T>(most);
        T safe = now > kNever<T> ? now : 0;  // where nothing is seen, or NaN
        Vec<T> sum{};
        for (int64_t c = 0; c < size; c += kLanes<T>) {
            Vec<T> weight = loops::power_of_two<T>(load(scores + c) - safe);
            store(scores + c, weight);
            sum += weight;
        }
        T factor = old == safe ? T(1) : std::exp2(old - safe);
        total[r] = total[r] * factor + sum;
        top[r] = now;
        return factor;
    }
};

// The square of the longest key's norm; infinite where values or a bias are in the way of what `Softmax` makes of it.
template <typename T>
T longest(const Call& call, const T* keys, int64_t size, const T* values, int64_t panels, int64_t packed) {
    Vec<T> most{}, large{};
    for (int64_t k = 0; k < size; k += kPanel<T>, keys += call.dim * kPanel<T>) {
        Vec<T> one{}, other{};
        for (int64_t d = 0; d < call.dim; ++d) {
            Vec<T> left = load(keys + d * kPanel<T>), right = load(keys + d * kPanel<T> + kLanes<T>);
            one += left * left, other += right * right;
        }
        most = loops::larger<T>(loops::larger<T>(most, one), other);
    }
    for (int64_t p = 0; p < panels; ++p, values += packed * kPanel<T>)
        for (int64_t k = 0; k < size * kPanel<T>; k += kLanes<T>) {
            Vec<T> value = load(values + k);
            large = loops::larger<T>(large, value * value);
        }
    bool calm = !call.bias.at && loops::largest<T>(large) <= T(kSmallValue * kSmallValue);
    return calm ? loops::largest<T>(most) : -kNever<T>;
}

template <typename S, typename T>
void forward(const Call& call, double scale) {
    const int64_t group = call.group(), blocks = call.blocks(), each = group * blocks;
    const int64_t width = whole<T>(call.dim), value_width = whole<T>(call.value_dim);
    const int64_t panels = (call.value_dim + kPanel<T> - 1) / kPanel<T>;
    const int64_t packed = (call.keys + kPanel<T> - 1) / kPanel<T> * kPanel<T>;
    const int64_t most = std::min(packed, kTile<T>), rows = call.rows();
    int64_t cost = call.batch * call.heads * call.queries * call.keys * (call.dim + call.value_dim);
    share(call.batch * call.key_heads * each, 1, call.threads, cost, [&](int64_t from, int64_t to) {
        Buffer<T> keys(packed * call.dim), values(packed * panels * kPanel<T>), query(rows * width);
        Buffer<T> scores(rows * (most + kLanes<T>)), context(rows * value_width), draws(most);
        T norm = 0;
        for (int64_t at = from, ready = -1; at < to; ++at) {
            int64_t unit = at / each, item = unit / call.key_heads, key_head = unit % call.key_heads;
            if (ready != unit) {
                int64_t size = call.length(item);
                turned_panels_of<S, T>(call.key.of<const S>(item, key_head), call.key.row, call.key.column, size,
                                       call.dim, keys.at);
                panels_of<S, T>(call.value.of<const S>(item, key_head), call.value.row, call.value.column, size,
                                call.value_dim, values.at, packed);
                norm = longest(call, keys.at, size, values.at, panels, packed);
                ready = unit;
            }
            int64_t head = key_head * group + at % each / blocks;
            Block block(call, item, head, at % each % blocks * rows, rows);
            rows_of<S, T>(call.query.of<const S>(item, head) + block.first * call.query.row, call.query.row,
                          call.query.column, block.rows, call.dim, T(scale * kLog2e), query.at, width);
            std::memset(context.at, 0, block.rows * value_width * sizeof(T));
            Softmax<T> softmax(query.at, block.rows, width, norm);
            int64_t line = (item * call.heads + head) * call.queries + block.first;  // its first row among all
            for (int64_t start = block.begin / kPanel<T> * kPanel<T>; start < block.end; start += kTile<T>) {
                Tile<T> tile(call, block, start, most);
                tile.product(query.at, call.dim, keys.at, width, scores.at);
                for (int64_t r = 0; r < block.rows; ++r) {
                    int64_t strip = r / kStrip, first = tile.first_vector(strip);
                    int64_t size = tile.last_vector(strip) - first;
                    if (size == 0) continue;
                    T* here = scores.at + r * tile.stride;
                    tile.finish(r, here, first, first + size);
                    T factor = softmax.row(r, here + first, size);
                    if (factor != 1) {
                        T* sums = context.at + r * value_width;
                        for (int64_t c = 0; c < value_width; c += kLanes<T>) store(sums + c, load(sums + c) * factor);
                    }
                    if (call.dropped) {
                        Draws<T>(call, line + r).write(start + first, size, draws.at);
                        for (int64_t c = 0; c < size; ++c) here[first + c] *= draws.at[c];
                    }
                }
                tile.read(scores.at, values.at, packed, value_width, context.at);
            }
            S* out = reinterpret_cast<S*>(call.context) + line * call.value_dim;
            T* normalizer = reinterpret_cast<T*>(call.normalizer);
            for (int64_t r = 0; r < block.rows; ++r) {
                T total = loops::sum<T>(softmax.total[r]);
                write_rows<S, T>(context.at + r * value_width, value_width, 1, call.value_dim,
                                 total == 0 ? T(0) : 1 / total, out + r * call.value_dim);
                // A row that sees nothing is far below its maximum on the way back, too.
                if (normalizer)
                    normalizer[line + r] = total == 0 ? -kNever<T> : softmax.top[r] + std::log2(total);
            }
        }
    });
}

}  // namespace
}  // namespace dot

#define REGARD_DOT(NAME, S, T)                                                                     \
    extern "C" void dot_forward_##NAME(const dot::Call* call, double scale) {                      \
        dot::forward<S, T>(*call, scale);                                                          \
    }                                                                                              \
    extern "C" void dot_backward_##NAME(const dot::Call* call, double scale) {                     \
        dot::backward<S, T>(*call, scale);                                                         \
    }                                                                                              \
    extern "C" void dot_statistics_##NAME(const dot::Call* call, double scale) {                   \
        dot::statistics<S, T>(*call, scale);                                                       \
    }

REGARD_DOT(float32, float, float)
REGARD_DOT(float64, double, double)
REGARD_DOT(bfloat16, dot::Brain, float)
#ifdef __FLT16_MAX__
REGARD_DOT(float16, _Float16, float)
#endif
