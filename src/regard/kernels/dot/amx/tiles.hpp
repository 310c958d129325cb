// The tiles of a processor's matrix unit (AMX): who has them, and how they are loaded and multiplied.

#pragma once

#include "native/loops.hpp"

#if defined(__AMX_BF16__) && defined(__AVX512BW__) && defined(__linux__)

#define REGARD_HAS_TILES

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tiles {

constexpr int64_t kTile = 1024;  // bytes: 16 rows of 64

inline bool granted() {  // Linux grants a process tiles on request
    constexpr int ask = 0x1023, data = 18;
    static const bool given = syscall(SYS_arch_prctl, ask, data) == 0;
    return given;
}

// A thread's tiles, all of 16 rows of 64 bytes, while this lives.
struct Held {
    explicit operator bool() const { return held; }
    explicit Held(bool wanted) : held(wanted && granted()) {
        struct alignas(64) {
            uint8_t palette = 1, row = 0, none[14] = {0};
            uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
            uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
        } configuration;
        asm volatile("" : : "r"(&configuration) : "memory");
        if (held) _tile_loadconfig(&configuration);
    }
    ~Held() {
        if (held) _tile_release();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

  private:
    const bool held;
};

// Tiles are loaded from what ordinary instructions stored: the compiler may not move those past a load of a tile.
inline void written() { asm volatile("" ::: "memory"); }

}  // namespace tiles

// Seven instructions that do nothing. Where another thread shares the core, tile instructions that enter it together
// keep each other waiting: behind these a product takes 8 ns instead of 15 and a load 7 instead of 12. Elsewhere they
// cost nothing.
#define REGARD_APART() asm volatile("nop\n nop\n nop\n nop\n nop\n nop\n nop\n")
#define REGARD_LOAD(tile, from, stride)  \
    do {                                 \
        _tile_loadd(tile, from, stride); \
        REGARD_APART();                  \
    } while (0)
#define REGARD_PRODUCT(to, left, right)  \
    do {                                 \
        _tile_dpbf16ps(to, left, right); \
        REGARD_APART();                  \
    } while (0)

#endif
