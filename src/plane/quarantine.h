/* SPDX-License-Identifier: Apache-2.0
 *
 * The quarantine lists of one DataServer: what they leave out, and a thread that adds to them. The loop hands over and
 * never waits: a disk may (docs/decisions/0171).
 *
 * One owner: the DataServer's loop calls everything here.
 */
#ifndef STK_PLANE_QUARANTINE_H
#define STK_PLANE_QUARANTINE_H

#include <stdbool.h>

#include <stoker/error.h>
#include <stoker/quarantine.h>

#include "plane/badlist.h"
#include "wire/message.h"

struct stk_quarantine;

/* One list by its path, shared by the lanes that name it. */
struct stk_named_list {
    char *path;
    uint32_t users;
    struct stk_badlist bad; /* as it was when the first of them opened */
    struct stk_named_list *next;
};

stoker_status stk_quarantine_create(struct stk_quarantine **out_quarantine, stoker_error *err);
/* Writes what was handed over, then ends the thread. NULL allowed. */
void stk_quarantine_destroy(struct stk_quarantine *quarantine);

/* Takes blob_fd, even on failure; a list that is open already keeps its own. Each is let go once. */
stoker_status stk_quarantine_list_open(struct stk_quarantine *quarantine, struct stk_span path, int blob_fd,
                                       struct stk_named_list **out_list, stoker_error *err);
void stk_quarantine_list_close(struct stk_quarantine *quarantine, struct stk_named_list *list); /* NULL allowed */

/* Hands an entry over; it is copied. One for which there is no room is counted, and told as a failure. */
void stk_quarantine_note(struct stk_quarantine *quarantine, const struct stk_named_list *list,
                         const stoker_quarantine_entry *entry);
/* What went wrong with writing since the last call, if anything did. */
bool stk_quarantine_take_failure(struct stk_quarantine *quarantine, stoker_error *out);

#endif
