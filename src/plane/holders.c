/* SPDX-License-Identifier: Apache-2.0
 *
 * Who was given what: see holders.h. Processes are found by open addressing on their numbers, which the DataServer
 * counts up; a forgotten slot stays a stepping stone for those behind it until it is used again, because slots are
 * positions in the bit sets of segments and must not move.
 */
#include "plane/holders.h"

#include "base/assert.h"

enum slot_state { SLOT_NEVER, SLOT_USED, SLOT_FORGOTTEN };

void stk_holders_init(struct stk_holders *holders) { holders->free_entry = STK_HOLDERS_NONE; }

static uint32_t find(const struct stk_holders *holders, uint32_t process, uint32_t *out_free)
{
    *out_free = STK_HOLDERS_NONE;
    for (uint32_t i = 0; i < STK_HOLDER_PROCESSES; i++) {
        uint32_t slot = (process + i) % STK_HOLDER_PROCESSES;
        uint8_t state = holders->slot_state[slot];
        if (state == SLOT_USED && holders->processes[slot] == process) return slot;
        if (state != SLOT_USED && *out_free == STK_HOLDERS_NONE) *out_free = slot;
        if (state == SLOT_NEVER) break;
    }
    return STK_HOLDERS_NONE;
}

uint32_t stk_holders_slot(struct stk_holders *holders, uint32_t process)
{
    uint32_t free_slot, slot = find(holders, process, &free_slot);
    if (slot != STK_HOLDERS_NONE) return slot;
    STK_ASSERT(free_slot != STK_HOLDERS_NONE);
    holders->processes[free_slot] = process;
    holders->slot_state[free_slot] = SLOT_USED;
    return free_slot;
}

uint32_t stk_holders_forget(struct stk_holders *holders, uint32_t process)
{
    uint32_t free_slot, slot = find(holders, process, &free_slot);
    if (slot != STK_HOLDERS_NONE) holders->slot_state[slot] = SLOT_FORGOTTEN;
    return slot;
}

void stk_holders_add(struct stk_holders *holders, uint32_t *chain, uint32_t process)
{
    for (uint32_t at = *chain; at != STK_HOLDERS_NONE; at = holders->entries[at].next) {
        if (holders->entries[at].process != process) continue;
        holders->entries[at].count++;
        return;
    }
    uint32_t entry = holders->free_entry;
    if (entry != STK_HOLDERS_NONE) {
        holders->free_entry = holders->entries[entry].next;
    } else {
        STK_ASSERT(holders->entries_touched < STK_HOLDER_ENTRIES);
        entry = holders->entries_touched++;
    }
    holders->entries[entry] = (struct stk_holder){.process = process, .count = 1, .next = *chain};
    *chain = entry;
}

bool stk_holders_drop(struct stk_holders *holders, uint32_t *chain, uint32_t process, bool all)
{
    for (uint32_t *link = chain; *link != STK_HOLDERS_NONE; link = &holders->entries[*link].next) {
        uint32_t entry = *link;
        if (holders->entries[entry].process != process) continue;
        if (--holders->entries[entry].count > 0 && !all) return true;
        *link = holders->entries[entry].next;
        holders->entries[entry].next = holders->free_entry;
        holders->free_entry = entry;
        return true;
    }
    return false;
}

bool stk_holders_any(const struct stk_holders *holders, uint32_t chain, uint32_t except)
{
    for (; chain != STK_HOLDERS_NONE; chain = holders->entries[chain].next)
        if (holders->entries[chain].process != except) return true;
    return false;
}
