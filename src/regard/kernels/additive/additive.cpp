// Additive scores of all pairs of a query and a key, forward and backward, an item at a time: see sides.hpp for what is
// made of its queries and keys, and pairs.hpp for the pairs themselves.
//
// Rows are `wide` numbers long, whole vectors, and 0 behind their end.

#include "additive/pairs.hpp"
#include "additive/sides.hpp"

namespace {

using namespace loops;

// a (items, queries, wide), b (items, keys, wide), v (wide) -> out (items, queries, keys). `kept` is exp(-2 b), or null.
template <typename T>
void forward(int64_t items, int64_t queries, int64_t keys, int64_t wide, int64_t threads, const T* a, const T* b,
             const T* kept, const T* v, T* out) {
    T total = 0;
    for (int64_t h = 0; h < wide; ++h) total += v[h];
    share(items * queries, 1, threads, items * queries * keys * wide, [=](int64_t begin, int64_t end) {
        pairs::Sides<T> sides;
        while (begin < end) {
            int64_t item = begin / queries, first = begin % queries;
            int64_t rows = std::min(queries - first, end - begin), at = item * keys * wide;
            sides.make(queries, keys, wide, first, rows, 0, wide, a + item * queries * wide, b + at,
                       kept ? kept + at : kept);
            (sides.exponential ? pairs::scores<T, true> : pairs::scores<T, false>)(
                rows, keys, wide, sides.x, sides.y, v, total, out + begin * keys, keys);
            begin += rows;
        }
    });
}

// Writes da and db, or adds to what stands there, and adds the sums of g r to dv. Threads share hidden units, so that no
// two write to one place.
template <typename T>
void backward(int64_t items, int64_t queries, int64_t keys, int64_t wide, int64_t threads, const T* a, const T* b,
              const T* kept, const T* v, const T* g, T* da, T* db, T* dv, bool add) {
    share(wide, kLanes<T>, threads, items * queries * keys * wide, [=](int64_t begin, int64_t end) {
        pairs::Sides<T> sides;
        std::vector<Vec<T>> scratch(pairs::scratch_of<T>(keys, wide));
        for (int64_t item = 0; item < items; ++item) {
            int64_t row = item * queries * wide, column = item * keys * wide;
            sides.make(queries, keys, wide, 0, queries, begin, end, a + row, b + column, kept ? kept + column : kept);
            const auto written = sides.exponential ? pairs::back<T, true, false> : pairs::back<T, false, false>;
            const auto added = sides.exponential ? pairs::back<T, true, true> : pairs::back<T, false, true>;
            (add ? added : written)(queries, keys, wide, begin, end, sides.x, sides.y, v, g + item * queries * keys,
                                    keys, da + row, db + column, dv, scratch.data());
        }
    });
}

// to = exp(-2 b) where no |b| is beyond what may be kept; whether it is so.
template <typename T>
bool keep(int64_t size, const T* b, T* to) {
    if (!(pairs::width<T>(size, b) <= pairs::kReach<T>)) return false;
    const T none[kLanes<T>] = {};
    for (int64_t i = 0; i < size; i += kLanes<T>)
        pairs::exponentials<T>(1, kLanes<T>, 0, kLanes<T>, 0, none, b + i, to + i);
    return true;
}

}  // namespace

#define REGARD_ADDITIVE(NAME, T)                                                                                      \
    extern "C" void additive_forward_##NAME(int64_t items, int64_t queries, int64_t keys, int64_t wide,               \
                                            int64_t threads, const T* a, const T* b, const T* kept, const T* v,       \
                                            T* out) {                                                                 \
        forward<T>(items, queries, keys, wide, threads, a, b, kept, v, out);                                          \
    }                                                                                                                 \
    extern "C" void additive_backward_##NAME(int64_t items, int64_t queries, int64_t keys, int64_t wide,              \
                                             int64_t threads, const T* a, const T* b, const T* kept, const T* v,      \
                                             const T* g, T* da, T* db, T* dv, bool add) {                             \
        backward<T>(items, queries, keys, wide, threads, a, b, kept, v, g, da, db, dv, add);                          \
    }                                                                                                                 \
    extern "C" bool additive_keep_##NAME(int64_t size, const T* b, T* to) { return keep<T>(size, b, to); }

REGARD_ADDITIVE(float32, float)
REGARD_ADDITIVE(float64, double)
