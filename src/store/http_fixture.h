/* SPDX-License-Identifier: Apache-2.0
 *
 * An HTTP server for tests that answers by a script: reply k to request k, one request a connection. It keeps what it
 * was asked.
 */
#ifndef STK_STORE_HTTP_FIXTURE_H
#define STK_STORE_HTTP_FIXTURE_H

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/thread.h"
#include "tests/support/unit.h"

enum { REPLIES_MAX = 16, REQUEST_BYTES = 8192 };

struct reply {
    const char *head; /* without the empty line; NULL: the connection is cut instead of an answer */
    const char *text; /* body, or NULL */
    uint64_t from;    /* else: `size` bytes of the pattern p modulo 251 from here */
    size_t size;
    bool silent; /* nothing is said until the server ends */
};

struct http_server {
    int listener;
    unsigned port;
    struct reply replies[REPLIES_MAX];
    unsigned reply_count;
    char requests[REPLIES_MAX][REQUEST_BYTES]; /* looked at after http_server_stop(), or when the answer is here */
    unsigned request_count;
    int stop_pipe[2];
    struct stk_thread *thread;
};

static inline void send_all(int connection, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(connection, at, size, MSG_NOSIGNAL);
        if (sent <= 0) return; /* the client has had enough */
        at += sent;
        size -= (size_t)sent;
    }
}

static inline void send_reply(struct http_server *server, int connection, const struct reply *reply)
{
    if (reply->silent) {
        struct pollfd stop = {.fd = server->stop_pipe[0], .events = POLLIN};
        (void)poll(&stop, 1, -1);
        return;
    }
    if (!reply->head) return;
    send_all(connection, reply->head, strlen(reply->head));
    send_all(connection, "Connection: close\r\n\r\n", 21);
    if (reply->text) send_all(connection, reply->text, strlen(reply->text));
    uint8_t part[4096];
    for (size_t done = 0; done < reply->size;) {
        size_t size = reply->size - done < sizeof part ? reply->size - done : sizeof part;
        for (size_t i = 0; i < size; i++) part[i] = (uint8_t)((reply->from + done + i) % 251);
        send_all(connection, part, size);
        done += size;
    }
}

static inline void serve_one(struct http_server *server, int connection)
{
    char *request = server->requests[server->request_count];
    size_t used = 0;
    while (used < REQUEST_BYTES - 1) {
        ssize_t got = recv(connection, request + used, REQUEST_BYTES - 1 - used, 0);
        if (got <= 0) return;
        used += (size_t)got;
        request[used] = 0;
        if (strstr(request, "\r\n\r\n")) break;
    }
    if (server->request_count >= server->reply_count) abort(); /* more requests than the test foresees */
    send_reply(server, connection, &server->replies[server->request_count++]);
    /* What the client still sends must not reset the connection before it has read the answer. */
    (void)shutdown(connection, SHUT_WR);
    while (recv(connection, request + used, REQUEST_BYTES - 1 - used, 0) > 0) {
    }
}

static inline void serve(void *argument)
{
    struct http_server *server = argument;
    for (;;) {
        struct pollfd events[2] = {{.fd = server->listener, .events = POLLIN},
                                   {.fd = server->stop_pipe[0], .events = POLLIN}};
        if (poll(events, 2, -1) < 0) abort();
        if (events[1].revents) return;
        int connection = accept(server->listener, NULL, NULL);
        if (connection < 0) abort();
        serve_one(server, connection);
        (void)close(connection);
    }
}

static inline struct http_server *http_server_start(const struct reply *replies, unsigned count)
{
    struct http_server *server = calloc(1, sizeof *server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    assert_non_null(server);
    assert_true(count <= REPLIES_MAX);
    memcpy(server->replies, replies, count * sizeof *replies);
    server->reply_count = count;
    server->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(server->listener >= 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server->listener, 16), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &size), 0);
    server->port = ntohs(address.sin_port);
    assert_int_equal(pipe(server->stop_pipe), 0);
    assert_int_equal(stk_thread_start("server", serve, server, &server->thread, NULL), STOKER_OK);
    return server;
}

/* Ends it, however much was asked for. */
static inline unsigned http_server_end(struct http_server *server)
{
    (void)close(server->stop_pipe[1]);
    stk_thread_join(server->thread);
    (void)close(server->stop_pipe[0]);
    (void)close(server->listener);
    unsigned left = server->reply_count - server->request_count;
    free(server);
    return left;
}

static inline void http_server_stop(struct http_server *server)
{
    assert_int_equal(http_server_end(server), 0); /* all that was foreseen was asked for */
}

#endif
