// What the weights of dot.cpp are like, and if it's wanted the context too, from one product of queries and keys.
//
// The weights of some queries and all keys are held at once: what a key receives is known only when its row is complete.

#pragma once

#include <optional>

#include "dot/call.hpp"
#include "dot/directions.hpp"
#include "dot/pack.hpp"
#include "dot/vectors.hpp"

namespace dot {

constexpr int64_t kHeld = 1 << 17;  // weights at a time

// A bit for each number of the vector that is at least so large.
template <typename T>
inline uint32_t bits_from(Vec<T> numbers, T least) {
#ifdef __AVX512F__
    if constexpr (std::is_same_v<T, float>)
        return _mm512_cmp_ps_mask((__m512)numbers, _mm512_set1_ps(least), _CMP_GE_OQ);
    else
        return _mm512_cmp_pd_mask((__m512d)numbers, _mm512_set1_pd(least), _CMP_GE_OQ);
#else
    uint32_t found = 0;
    for (int i = 0; i < kLanes<T>; ++i) found |= uint32_t(numbers[i] >= least) << i;
    return found;
#endif
}

// The largest numbers so far, in descending order, the earlier first among equals.
template <typename T>
struct Largest {
    int64_t top, count = 0;
    T* numbers;
    int64_t* places;

    void add(T number, int64_t place) {
        if (count == top && !(number > numbers[top - 1])) return;
        int64_t n = count < top ? count++ : top - 1;
        for (; n > 0 && numbers[n - 1] < number; --n) numbers[n] = numbers[n - 1], places[n] = places[n - 1];
        numbers[n] = number, places[n] = place;
    }
};

// One row: scores from … to become weights (not yet divided). Their sum, and the largest of each column of vectors.
template <typename T>
struct Row {
    T total, mixed;  // Σ w and Σ w log2(w)
    Vec<T> most;

    Row(T* scores, int64_t from, int64_t to) {
        most = loops::all<T>(kNever<T>);
        for (int64_t c = from; c < to; c += kLanes<T>) most = loops::larger<T>(most, load(scores + c));
        T top = loops::largest<T>(most), safe = top > kNever<T> ? top : 0;  // of a fully masked row, or NaN
        Vec<T> sum{}, sum_mixed{};
        for (int64_t c = from; c < to; c += kLanes<T>) {
            Vec<T> score = load(scores + c) - safe, weight = loops::power_of_two<T>(score);
            store(scores + c, weight);
            sum += weight;
            sum_mixed += weight * loops::larger<T>(score, loops::all<T>(T(-2000)));  // 0 · −inf is 0 here
        }
        total = loops::sum<T>(sum), mixed = loops::sum<T>(sum_mixed);
        most = loops::power_of_two<T>(most - safe);
    }
    // Few numbers are larger than what the columns' largest say that the largest `top` are at least.
    T least(int64_t top) const {
        if (top > kLanes<T>) return 0;
        T sorted[kLanes<T>];
        store(sorted, most);
        std::nth_element(sorted, sorted + top - 1, sorted + kLanes<T>, [](T one, T other) { return one > other; });
        return sorted[top - 1];
    }
};

template <typename T>
void top_of_row(const Call& call, const Block& block, int64_t query, const T* weights, int64_t start, int64_t from,
                int64_t to, const Row<T>& row) {
    int64_t line = (block.item * call.heads + block.head) * call.queries + query;
    Largest<T> largest{call.top, 0, reinterpret_cast<T*>(call.top_weights) + line * call.top,
                       reinterpret_cast<int64_t*>(call.top_keys) + line * call.top};
    const T nan = std::numeric_limits<T>::quiet_NaN();
    if (row.total != row.total) {
        for (int64_t k = 0; k < call.keys && largest.count < call.top; ++k)
            if (call.attends(block.item, block.head, query, k)) largest.add(nan, k);
        for (int64_t k = 0; k < call.keys && largest.count < call.top; ++k)
            if (!call.attends(block.item, block.head, query, k)) largest.add(0, k);
        return;
    }
    const int64_t end = std::min(to, call.keys - start);
    T least = from < end ? row.least(call.top) : 0;
    for (int64_t c = from; c < end; c += kLanes<T>) {
        uint32_t bits = bits_from<T>(load(weights + c), least);
        if (bits == 0) continue;
        for (; bits; bits &= bits - 1) {
            int64_t i = c + __builtin_ctz(bits);
            if (i < end) largest.add(weights[i], start + i);
        }
        if (largest.count == call.top) least = std::max(least, largest.numbers[call.top - 1]);
    }
    T inverse = row.total > 0 ? 1 / row.total : 0;
    for (int64_t n = 0; n < largest.count; ++n) largest.numbers[n] *= inverse;
    for (int64_t k = 0; largest.count < call.top; ++k)  // beyond what was computed
        if (k < start + from || k >= start + end) largest.add(0, k);
}

// What one thread needs to go through one head.
template <typename S, typename T, typename P>
class Statistics {
  public:
    Statistics(const Call& call, double scale, int64_t rows)
        : call(call),
          factor(T(scale * kLog2e)),
          rows(rows),
          packed((call.keys + kPanel<T> - 1) / kPanel<T> * kPanel<T>),
          stride(packed + kLanes<T>),
          width(whole<T>(call.value_dim)),
          keys(call.keys, call.dim),
          values(call.context ? call.keys : 0, call.value_dim),
          query(rows, call.dim, false),
          directions(call.query_directions, rows, call.dim),
          weights((rows + kPanel<T>) * stride),
          context((rows + kPanel<T>) * width),
          received(packed),
          inverse(rows) {}

    void begin(const View& key, int64_t item, int64_t key_head) {
        own_key = key;
        keys.write(key, 0, 0, call.length(item));
        if (call.context) values.write(call.value, item, key_head, call.length(item));
    }

    void go_through(int64_t item, int64_t head) {
        T* all_received = reinterpret_cast<T*>(call.received) + (item * call.heads + head) * call.keys;
        std::memset(all_received, 0, call.keys * sizeof(T));
        for (int64_t first = 0; first < call.queries; first += rows)
            observe(Block(call, item, head, first, rows), all_received);
    }

  private:
    const Call& call;
    const T factor;
    const int64_t rows, packed, stride, width;
    typename P::Turned keys;
    typename P::Straight values;
    typename P::Lines query;
    Directions<S, T> directions;
    View own_key{};
    Buffer<T> weights, context, received, inverse;
    typename P::Room room;

    void observe(const Block& block, T* all_received) {
        int64_t line = (block.item * call.heads + block.head) * call.queries + block.first;
        int64_t start = block.begin / kPanel<T> * kPanel<T>;
        query.write(directions.of(call.query, block.item, block.head, block.first, block.rows), block.rows, factor);
        typename P::Tile tile(call, block, start, packed);
        for (int64_t n = 0; n < tile.strips(); n += P::kTogether) {
            P::product(tile, n, query, keys, weights.at, Idle());
            P::mend(tile, n, query, own_key, weights.at);
        }
        for (int64_t r = 0; r < block.rows; ++r) {
            int64_t low = tile.first_vector(r / P::kStrip), high = tile.last_vector(r / P::kStrip);
            T* here = weights.at + r * stride;
            if (low < high) tile.finish(r, here, low, high);
            Row<T> row(here, low, high);
            inverse.at[r] = row.total == 0 ? 0 : 1 / row.total;
            reinterpret_cast<T*>(call.maximum)[line + r] = inverse.at[r];
            T entropy = row.total == 0 ? 0 : T(kLn2) * (std::log2(row.total) - row.mixed * inverse.at[r]);
            reinterpret_cast<T*>(call.entropy)[line + r] = entropy < 0 ? 0 : entropy;
            if (call.top) top_of_row(call, block, block.first + r, here, start, low, high, row);
            if (inverse.at[r] != inverse.at[r]) {  // NaN is received from this row where it attends, and not beyond
                for (int64_t c = low; c < high; ++c)
                    here[c] = call.attends(block.item, block.head, block.first + r, start + c) ? inverse.at[r] : 0;
                inverse.at[r] = 1;
            }
        }
        std::memset(received.at, 0, packed * sizeof(T));
        for (int64_t n = 0; n < tile.strips(); ++n) {
            int64_t low = tile.first_vector(n), size = tile.last_vector(n) - low;
            loops::multiply<T, true>(1, size, tile.rows_of(n), inverse.at + n * P::kStrip, 0, 1,
                                     weights.at + n * P::kStrip * stride + low, stride, received.at + low, 0);
        }
        for (int64_t c = 0; c < std::min(tile.columns, call.keys - start); ++c) all_received[start + c] += received.at[c];
        if (!call.context) return;
        std::memset(context.at, 0, (block.rows + kPanel<T>) * width * sizeof(T));
        P::read_all(tile, weights.at, values, width, context.at, room);
        for (int64_t r = 0; r < block.rows; ++r)
            write_rows<S, T>(context.at + r * width, width, 1, call.value_dim, inverse.at[r],
                             reinterpret_cast<S*>(call.context) + (line + r) * call.value_dim);
    }
};

template <typename S, typename T, typename P>
void statistics(const Call& call, double scale) {
    using Plain = Vectors<S, T>;
    const int64_t stride = (call.keys + kPanel<T> - 1) / kPanel<T> * kPanel<T> + kLanes<T>;
    const int64_t rows = std::max(P::kStrip, std::min(P::kRows, kHeld / stride / P::kStrip * P::kStrip));
    int64_t cost = call.batch * call.heads * call.queries * call.keys * (call.dim + call.value_dim);
    share(call.batch * call.heads, 1, call.threads, cost, [&](int64_t from, int64_t to) {
        const typename P::Unit unit(call.unit != 0);
        std::optional<Statistics<S, T, P>> fast;
        std::optional<Statistics<S, T, Plain>> plain;
        Directions<S, T> directions(call.key_directions, call.keys, call.dim);
        for (int64_t at = from; at < to;) {
            const int64_t item = at / call.heads, key_head = at % call.heads / call.group(), size = call.length(item);
            const int64_t stop = std::min(to, item * call.heads + (key_head + 1) * call.group());
            const View own_key = directions.of(call.key, item, key_head, 0, size);
            auto go_through = [&](auto& way) {
                if (!way) way.emplace(call, scale, rows);
                way->begin(own_key, item, key_head);
                for (; at < stop; ++at) way->go_through(item, at % call.heads);
            };
            if (unit && Reach<T>::template of<S>(own_key, 0, 0, size, call.dim, 1).fits &&
                (!call.context || Reach<T>::template of<S>(call.value, item, key_head, size, call.value_dim, 1).fits))
                go_through(fast);
            else
                go_through(plain);
        }
    });
}

}  // namespace dot
