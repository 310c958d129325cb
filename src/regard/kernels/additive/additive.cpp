// Additive scores of all pairs of a query and a key, forward and backward, an item at a time: see sides.hpp for what is
// made of its queries and keys, and pairs.hpp for the pairs themselves.
//
// Rows are `wide` numbers long, whole vectors, and 0 behind their end.

#include "additive/pairs.hpp"
#include "additive/sides.hpp"

namespace {

using namespace loops;

// Of queries a and keys b: out is a score for each pair. `kept` is exp(-2 b), or null.
template <typename T>
void forward(const abi::AdditiveForward<T>& call) {
    const int64_t queries = call.queries, keys = call.keys, wide = call.wide;
    T total = 0;
    for (int64_t h = 0; h < wide; ++h) total += call.v[h];
    const int64_t cost = call.items * queries * keys * wide;
    share(call.items * queries, 1, call.threads, cost, [=](int64_t begin, int64_t end) {
        pairs::Sides<T> sides;
        while (begin < end) {
            int64_t item = begin / queries, first = begin % queries;
            int64_t rows = std::min(queries - first, end - begin), at = item * keys * wide;
            sides.make(queries, keys, wide, first, rows, 0, wide, call.a + item * queries * wide, call.b + at,
                       call.kept ? call.kept + at : nullptr);
            (sides.exponential ? pairs::scores<T, true> : pairs::scores<T, false>)(
                rows, keys, wide, sides.x, sides.y, call.v, total, call.out + begin * keys, keys);
            begin += rows;
        }
    });
}

// Writes da and db, or adds to what stands there, and adds the sums of g r to dv. Threads share hidden units, so that no
// two write to one place.
template <typename T>
void backward(const abi::AdditiveBackward<T>& call) {
    const int64_t queries = call.queries, keys = call.keys, wide = call.wide;
    const int64_t cost = call.items * queries * keys * wide;
    share(wide, kLanes<T>, call.threads, cost, [=](int64_t begin, int64_t end) {
        pairs::Sides<T> sides;
        std::vector<Vec<T>> scratch(pairs::scratch_of<T>(keys, wide));
        for (int64_t item = 0; item < call.items; ++item) {
            int64_t row = item * queries * wide, column = item * keys * wide;
            sides.make(queries, keys, wide, 0, queries, begin, end, call.a + row, call.b + column,
                       call.kept ? call.kept + column : nullptr);
            const auto written = sides.exponential ? pairs::back<T, true, false> : pairs::back<T, false, false>;
            const auto added = sides.exponential ? pairs::back<T, true, true> : pairs::back<T, false, true>;
            (call.adds ? added : written)(queries, keys, wide, begin, end, sides.x, sides.y, call.v,
                                          call.g + item * queries * keys, keys, call.da + row, call.db + column,
                                          call.dv, scratch.data());
        }
    });
}

// to = exp(-2 b) where no |b| is beyond what may be kept; whether it is so.
template <typename T>
bool keep(const abi::AdditiveKeep<T>& call) {
    if (!(pairs::width<T>(call.size, call.b) <= pairs::kReach<T>)) return false;
    const T none[kLanes<T>] = {};
    for (int64_t i = 0; i < call.size; i += kLanes<T>)
        pairs::exponentials<T>(1, kLanes<T>, 0, kLanes<T>, 0, none, call.b + i, call.to + i);
    return true;
}

}  // namespace

#define REGARD_ADDITIVE(NAME, T)                                                                       \
    extern "C" void additive_forward_##NAME(const abi::AdditiveForward<T>& call) { forward(call); }    \
    extern "C" void additive_backward_##NAME(const abi::AdditiveBackward<T>& call) { backward(call); } \
    extern "C" bool additive_keep_##NAME(const abi::AdditiveKeep<T>& call) { return keep(call); }

REGARD_ADDITIVE(float32, float)
REGARD_ADDITIVE(float64, double)
