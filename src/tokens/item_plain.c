/* SPDX-License-Identifier: Apache-2.0
 *
 * The portable inner loops of items: see item.h.
 */
#include "tokens/item.h"

#include <string.h>

#include <stoker/dataset.h>

#include "base/assert.h"

bool stk_item_is_integer(int dtype_code)
{
    switch (dtype_code) {
    case STOKER_TOKEN_UINT8:
    case STOKER_TOKEN_INT8:
    case STOKER_TOKEN_INT16:
    case STOKER_TOKEN_INT32:
    case STOKER_TOKEN_INT64:
    case STOKER_TOKEN_UINT16: return true;
    default: return false;
    }
}

/* Elements in .bin files have any alignment: each is copied out. */
#define WIDEN(type)                                                                                                    \
    for (size_t i = 0; i < count; i++) {                                                                               \
        type value;                                                                                                    \
        memcpy(&value, (const uint8_t *)from + i * sizeof value, sizeof value);                                        \
        out[i] = value;                                                                                                \
    }

static void widen(int dtype_code, const void *from, size_t count, int64_t *out)
{
    STK_ASSERT(stk_item_is_integer(dtype_code));
    switch (dtype_code) {
    case STOKER_TOKEN_UINT8: WIDEN(uint8_t) break;
    case STOKER_TOKEN_INT8:
        for (size_t i = 0; i < count; i++) out[i] = (((const uint8_t *)from)[i] ^ 0x80) - INT64_C(0x80);
        break;
    case STOKER_TOKEN_INT16: WIDEN(int16_t) break;
    case STOKER_TOKEN_INT32: WIDEN(int32_t) break;
    case STOKER_TOKEN_UINT16: WIDEN(uint16_t) break;
    default:
        if (count > 0) memcpy(out, from, count * sizeof *out);
        break;
    }
}

#define HOLDS(type)                                                                                                    \
    for (size_t i = 0; i < count; i++) {                                                                               \
        type here;                                                                                                     \
        memcpy(&here, (const uint8_t *)from + i * sizeof here, sizeof here);                                           \
        if (here == value) return true;                                                                                \
    }

static bool holds(int dtype_code, const void *from, size_t count, int64_t value)
{
    STK_ASSERT(stk_item_is_integer(dtype_code));
    switch (dtype_code) {
    case STOKER_TOKEN_UINT8: HOLDS(uint8_t) break;
    case STOKER_TOKEN_INT8: HOLDS(int8_t) break;
    case STOKER_TOKEN_INT16: HOLDS(int16_t) break;
    case STOKER_TOKEN_INT32: HOLDS(int32_t) break;
    case STOKER_TOKEN_UINT16: HOLDS(uint16_t) break;
    default: HOLDS(int64_t) break;
    }
    return false;
}

static void ramp(int64_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) out[i] = (int64_t)i;
}

static void fill(float *out, size_t count, float value)
{
    for (size_t i = 0; i < count; i++) out[i] = value;
}

static bool find(const int64_t *values, size_t count, int64_t value)
{
    for (size_t i = 0; i < count; i++)
        if (values[i] == value) return true;
    return false;
}

static void unmask(const int64_t *values, size_t count, int64_t value, float *loss)
{
    for (size_t i = 0; i < count; i++)
        if (values[i] == value) loss[i] = 0.0f;
}

static void clear(int64_t *values, size_t count, int64_t value)
{
    for (size_t i = 0; i < count; i++)
        if (values[i] == value) values[i] = 0;
}

const struct stk_item_ops stk_item_plain = {widen, holds, ramp, fill, find, unmask, clear};

const struct stk_item_ops *stk_item_best(void)
{
    const struct stk_item_ops *wide = stk_item_wide();
    return wide ? wide : &stk_item_plain;
}
