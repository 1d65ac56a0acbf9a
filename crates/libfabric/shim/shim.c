/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * libfabric's calls are functions of its objects, and its structures are many: this file, with the
 * declarations of abi.h, is what the binding calls instead. Every function returns 0 or more, or a
 * negative errno. Nothing here is safe to call from two threads at once for one network.
 *
 * Read first: crosslane_fi_open, crosslane_fi_endpoint_new.
 */
#define _GNU_SOURCE /* dlvsym */

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "abi.h"

#define API_VERSION LF_VERSION(1, 17)
/* What goes with a request for a connection, bytes. */
#define MAX_GREETING_BYTES 32
#define TEXT_BYTES 128

struct crosslane_fi_network {
    struct lf_info *info;
    struct lf_fid_fabric *fabric;
    struct lf_fid_domain *domain;
    struct lf_fid_eq *eq; /* only where endpoints have connections */
    int eq_fd;
    int hardware;
};

struct crosslane_fi_endpoint {
    struct crosslane_fi_network *network;
    struct lf_fid_ep *ep;
    struct lf_fid_cq *cq;
    struct lf_fid_av *av; /* of the one peer, only where endpoints have no connections */
    struct lf_context2 *contexts;
    uint32_t slots;
    lf_addr_t peer;
    int wait_fd; /* -1 where the provider has none */
};

struct crosslane_fi_listener {
    struct lf_fid_pep *pep;
};

struct crosslane_fi_facts {
    uint64_t max_message_bytes;
    uint64_t transmit_slots;
    uint64_t receive_slots;
    uint32_t registers_local; /* the near end has to be registered too */
    uint32_t addresses_are_virtual;
    uint32_t provider_gives_keys;
    uint32_t version;
    char domain[TEXT_BYTES];
};

struct crosslane_fi_registration {
    struct lf_fid_mr *mr;
    void *descriptor;
    uint64_t key;
};

enum { EVENT_NONE, EVENT_REQUEST, EVENT_CONNECTED, EVENT_SHUTDOWN, EVENT_ERROR, EVENT_OTHER };

struct crosslane_fi_event {
    uint32_t kind;
    int32_t error;
    const void *fid;
    struct lf_info *request; /* of EVENT_REQUEST: to be accepted or rejected */
    uint8_t greeting[MAX_GREETING_BYTES];
    uint64_t greeting_bytes;
    char text[TEXT_BYTES];
};

struct crosslane_fi_completion {
    uint32_t slot;
    int32_t error; /* 0: it went well */
    uint64_t bytes; /* of a message that was received */
    char text[TEXT_BYTES];
};

static void copy_text(char *into, const char *from) {
    strncpy(into, from ? from : "", TEXT_BYTES - 1);
    into[TEXT_BYTES - 1] = 0;
}

/* --- The library -------------------------------------------------------------------------- */

/* It is loaded when a network is asked for, so that a program that has none of it starts without
 * it, and without the libraries of all its providers. */
static struct {
    lf_getinfo_t *getinfo;
    lf_freeinfo_t *freeinfo;
    lf_dupinfo_t *dupinfo;
    lf_fabric_t *fabric;
    lf_strerror_t *strerror;
    lf_version_t *version;
} library;

/* Providers take signals for themselves, to print what nobody asked for or to clean up: the
 * program keeps its own. */
enum { SIGNALS = 32 };

static void keep_signals(struct sigaction *kept) {
    for (int signal = 1; signal < SIGNALS; signal++)
        sigaction(signal, NULL, &kept[signal]);
}

static void restore_signals(const struct sigaction *kept) {
    for (int signal = 1; signal < SIGNALS; signal++)
        if (signal != SIGKILL && signal != SIGSTOP)
            sigaction(signal, &kept[signal], NULL);
}

/* A function as it was in one version of the library's interface: later ones keep it. */
static void *symbol(void *loaded, const char *name, const char *version) {
#ifdef __GLIBC__
    return dlvsym(loaded, name, version);
#else
    (void)version;
    return dlsym(loaded, name);
#endif
}

/* Loads the library; NULL, or why it could not be. To be called once, before all else. */
const char *crosslane_fi_load(void) {
    struct sigaction kept[SIGNALS];
    keep_signals(kept);
    void *loaded = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (loaded) {
        library.getinfo = (lf_getinfo_t *)symbol(loaded, "fi_getinfo", "FABRIC_1.3");
        library.freeinfo = (lf_freeinfo_t *)symbol(loaded, "fi_freeinfo", "FABRIC_1.3");
        library.dupinfo = (lf_dupinfo_t *)symbol(loaded, "fi_dupinfo", "FABRIC_1.3");
        library.fabric = (lf_fabric_t *)symbol(loaded, "fi_fabric", "FABRIC_1.1");
        library.strerror = (lf_strerror_t *)symbol(loaded, "fi_strerror", "FABRIC_1.0");
        library.version = (lf_version_t *)symbol(loaded, "fi_version", "FABRIC_1.0");
        int has_all = library.getinfo && library.freeinfo && library.dupinfo && library.fabric &&
                      library.strerror && library.version;
        if (has_all && library.version() >= API_VERSION) {
            /* The first question loads the providers. */
            struct lf_info *info = NULL;
            if (library.getinfo(API_VERSION, NULL, NULL, LF_PROV_ATTR_ONLY, NULL, &info) == 0)
                library.freeinfo(info);
            restore_signals(kept);
            return NULL;
        }
        restore_signals(kept);
        return has_all ? "the libfabric that is installed is older than 1.17"
                       : "the libfabric that is installed lacks the interface of FABRIC_1.3";
    }
    const char *why = dlerror();
    restore_signals(kept);
    return why ? why : "libfabric.so.1 cannot be loaded";
}

uint32_t crosslane_fi_version(void) { return library.version(); }

const char *crosslane_fi_error_text(int error) { return library.strerror(error); }

/* What is asked of a provider. `with_connections`: connected endpoints, else reliable datagrams.
 * `hardware`: an adapter that reads and writes memory itself. */
static struct lf_info *wishes(const char *provider, int with_connections, int hardware) {
    struct lf_info *hints = library.dupinfo(NULL);
    if (!hints)
        return NULL;
    hints->caps = LF_MSG | LF_RMA;
    hints->mode = LF_CONTEXT | LF_CONTEXT2;
    hints->ep_attr->type = with_connections ? LF_EP_MSG : LF_EP_RDM;
    hints->domain_attr->mr_mode =
        hardware ? LF_MR_LOCAL | LF_MR_VIRT_ADDR | LF_MR_ALLOCATED | LF_MR_PROV_KEY : 0;
    hints->domain_attr->threading = LF_THREAD_DOMAIN;
    hints->domain_attr->av_type = with_connections ? LF_AV_UNSPEC : LF_AV_TABLE;
    hints->tx_attr->msg_order = LF_ORDER_SAS;
    hints->rx_attr->msg_order = LF_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup(provider);
    if (!hints->fabric_attr->prov_name) {
        library.freeinfo(hints);
        return NULL;
    }
    return hints;
}

/* Whether the provider has something to offer. */
int crosslane_fi_probe(const char *provider, int with_connections, int hardware) {
    struct lf_info *info = NULL, *hints = wishes(provider, with_connections, hardware);
    if (!hints)
        return -ENOMEM;
    int result = library.getinfo(API_VERSION, NULL, NULL, 0, hints, &info);
    library.freeinfo(hints);
    if (info)
        library.freeinfo(info);
    return result;
}

void crosslane_fi_close(struct crosslane_fi_network *network) {
    if (network->domain)
        lf_close(&network->domain->fid);
    if (network->eq)
        lf_close(&network->eq->fid);
    if (network->fabric)
        lf_close(&network->fabric->fid);
    if (network->info)
        library.freeinfo(network->info);
    free(network);
}

/* Opens a provider. */
int crosslane_fi_open(const char *provider, int with_connections, int hardware,
                      struct crosslane_fi_network **out, struct crosslane_fi_facts *facts) {
    struct lf_info *hints = wishes(provider, with_connections, hardware);
    struct crosslane_fi_network *network = calloc(1, sizeof *network);
    int result = -ENOMEM;
    if (!hints || !network)
        goto failed;
    network->eq_fd = -1;
    network->hardware = hardware;
    result = library.getinfo(API_VERSION, NULL, NULL, 0, hints, &network->info);
    if (result)
        goto failed;
    result = library.fabric(network->info->fabric_attr, &network->fabric, NULL);
    if (result)
        goto failed;
    if (with_connections) {
        struct lf_eq_attr attributes = {.wait_obj = LF_WAIT_FD};
        result = network->fabric->ops->eq_open(network->fabric, &attributes, &network->eq, NULL);
        if (result)
            goto failed;
        result = lf_control(&network->eq->fid, LF_GETWAIT, &network->eq_fd);
        if (result)
            goto failed;
    }
    result = network->fabric->ops->domain(network->fabric, network->info, &network->domain, NULL);
    if (result)
        goto failed;
    uint64_t mode = network->info->domain_attr->mr_mode;
    facts->max_message_bytes = network->info->ep_attr->max_msg_size;
    facts->transmit_slots = network->info->tx_attr->size;
    facts->receive_slots = network->info->rx_attr->size;
    facts->registers_local = (mode & LF_MR_LOCAL) != 0;
    facts->addresses_are_virtual = (mode & LF_MR_VIRT_ADDR) != 0;
    facts->provider_gives_keys = (mode & LF_MR_PROV_KEY) != 0;
    facts->version = library.version();
    copy_text(facts->domain, network->info->domain_attr->name);
    library.freeinfo(hints);
    *out = network;
    return 0;
failed:
    if (hints)
        library.freeinfo(hints);
    if (network)
        crosslane_fi_close(network);
    return result;
}

int crosslane_fi_event_fd(struct crosslane_fi_network *network) { return network->eq_fd; }

/* --- Memory ------------------------------------------------------------------------------ */

int crosslane_fi_register(struct crosslane_fi_network *network, void *memory, uint64_t bytes,
                          int remote_read, int remote_write, uint64_t key,
                          struct crosslane_fi_registration *out) {
    uint64_t access = LF_SEND | LF_RECV | LF_READ | LF_WRITE;
    access |= remote_read ? LF_REMOTE_READ : 0;
    access |= remote_write ? LF_REMOTE_WRITE : 0;
    struct lf_fid_domain *domain = network->domain;
    int result =
        domain->mr->reg(&domain->fid, memory, bytes, access, 0, key, 0, &out->mr, NULL);
    if (result)
        return result;
    out->descriptor = out->mr->mem_desc;
    out->key = out->mr->key;
    return 0;
}

int crosslane_fi_unregister(struct lf_fid_mr *mr) { return lf_close(&mr->fid); }

/* --- Endpoints --------------------------------------------------------------------------- */

void crosslane_fi_endpoint_free(struct crosslane_fi_endpoint *endpoint) {
    if (endpoint->ep)
        lf_close(&endpoint->ep->fid);
    if (endpoint->cq)
        lf_close(&endpoint->cq->fid);
    if (endpoint->av)
        lf_close(&endpoint->av->fid);
    free(endpoint->contexts);
    free(endpoint);
}

/* An endpoint with a queue for `slots` operations at once. `info` is what it is made from. */
static int endpoint_from(struct crosslane_fi_network *network, struct lf_info *info,
                         uint32_t slots, struct crosslane_fi_endpoint **out) {
    struct crosslane_fi_endpoint *endpoint = calloc(1, sizeof *endpoint);
    int result = -ENOMEM;
    if (!endpoint)
        return result;
    endpoint->network = network;
    endpoint->slots = slots;
    endpoint->peer = LF_ADDR_UNSPEC;
    endpoint->wait_fd = -1;
    endpoint->contexts = calloc(slots, sizeof *endpoint->contexts);
    if (!endpoint->contexts)
        goto failed;
    struct lf_cq_attr attributes = {
        .size = slots, .format = LF_CQ_FORMAT_MSG, .wait_obj = LF_WAIT_FD};
    result = network->domain->ops->cq_open(network->domain, &attributes, &endpoint->cq, NULL);
    if (result) {
        /* The provider has no descriptor to wait on: its peer rings. */
        attributes.wait_obj = LF_WAIT_NONE;
        result = network->domain->ops->cq_open(network->domain, &attributes, &endpoint->cq, NULL);
    } else {
        result = lf_control(&endpoint->cq->fid, LF_GETWAIT, &endpoint->wait_fd);
    }
    if (result)
        goto failed;
    result = network->domain->ops->endpoint(network->domain, info, &endpoint->ep, NULL);
    if (result)
        goto failed;
    if (!network->eq) {
        struct lf_av_attr addresses = {.type = LF_AV_TABLE, .count = 1};
        result = network->domain->ops->av_open(network->domain, &addresses, &endpoint->av, NULL);
        if (result)
            goto failed;
    }
    struct lf_fid *other = network->eq ? &network->eq->fid : &endpoint->av->fid;
    result = lf_ep_bind(endpoint->ep, other, 0);
    if (result)
        goto failed;
    result = lf_ep_bind(endpoint->ep, &endpoint->cq->fid, LF_TRANSMIT | LF_RECV);
    if (result)
        goto failed;
    result = lf_enable(endpoint->ep);
    if (result)
        goto failed;
    *out = endpoint;
    return 0;
failed:
    crosslane_fi_endpoint_free(endpoint);
    return result;
}

/* An endpoint without connections; its own address is written to `name`. */
int crosslane_fi_endpoint_new(struct crosslane_fi_network *network, uint32_t slots,
                              const char *service, uint8_t *name, uint64_t *name_bytes,
                              struct crosslane_fi_endpoint **out) {
    struct lf_info *info = library.dupinfo(network->info);
    if (!info)
        return -ENOMEM;
    if (service) {
        free(info->src_addr);
        info->src_addr = strdup(service);
        info->src_addrlen = info->src_addr ? strlen(service) + 1 : 0;
    }
    free(info->dest_addr);
    info->dest_addr = NULL;
    info->dest_addrlen = 0;
    struct sigaction kept[SIGNALS];
    keep_signals(kept);
    int result = endpoint_from(network, info, slots, out);
    restore_signals(kept);
    library.freeinfo(info);
    if (result)
        return result;
    size_t bytes = *name_bytes;
    result = (*out)->ep->cm->getname(&(*out)->ep->fid, name, &bytes);
    *name_bytes = bytes;
    if (result)
        crosslane_fi_endpoint_free(*out);
    return result;
}

/* Tells such an endpoint who its only peer is. */
int crosslane_fi_endpoint_peer(struct crosslane_fi_endpoint *endpoint, const uint8_t *name) {
    int inserted = endpoint->av->ops->insert(endpoint->av, name, 1, &endpoint->peer, 0, NULL);
    if (inserted == 1)
        return 0;
    endpoint->peer = LF_ADDR_UNSPEC;
    return inserted < 0 ? inserted : -EADDRNOTAVAIL;
}

/* Begins to connect; an event says how it ended. */
int crosslane_fi_connect(struct crosslane_fi_network *network, const char *node,
                         const char *service, int by_device, uint32_t slots,
                         const uint8_t *greeting, uint64_t greeting_bytes,
                         struct crosslane_fi_endpoint **out) {
    struct lf_info *info = NULL, *hints = library.dupinfo(network->info);
    if (!hints)
        return -ENOMEM;
    free(hints->src_addr);
    free(hints->dest_addr);
    hints->src_addr = hints->dest_addr = NULL;
    hints->src_addrlen = hints->dest_addrlen = 0;
    hints->addr_format = LF_FORMAT_UNSPEC;
    hints->handle = NULL;
    if (!by_device) {
        /* Any interface will do: the kernel finds the way. */
        free(hints->domain_attr->name);
        free(hints->fabric_attr->name);
        hints->domain_attr->name = hints->fabric_attr->name = NULL;
    }
    hints->domain_attr->domain = NULL;
    hints->fabric_attr->fabric = NULL;
    int result = library.getinfo(API_VERSION, node, service, 0, hints, &info);
    library.freeinfo(hints);
    if (result)
        return result;
    if (!by_device) {
        free(info->src_addr);
        info->src_addr = NULL;
        info->src_addrlen = 0;
    }
    result = endpoint_from(network, info, slots, out);
    if (!result) {
        result = (*out)->ep->cm->connect((*out)->ep, info->dest_addr, greeting, greeting_bytes);
        if (result)
            crosslane_fi_endpoint_free(*out);
    }
    library.freeinfo(info);
    return result;
}

int crosslane_fi_accept(struct crosslane_fi_network *network, struct lf_info *request,
                        uint32_t slots, const uint8_t *greeting, uint64_t greeting_bytes,
                        struct crosslane_fi_endpoint **out) {
    int result = endpoint_from(network, request, slots, out);
    if (!result) {
        result = (*out)->ep->cm->accept((*out)->ep, greeting, greeting_bytes);
        if (result)
            crosslane_fi_endpoint_free(*out);
    }
    library.freeinfo(request);
    return result;
}

void crosslane_fi_reject(struct crosslane_fi_listener *listener, struct lf_info *request) {
    listener->pep->cm->reject(listener->pep, request->handle, NULL, 0);
    library.freeinfo(request);
}

/* A request whose listener is no more. */
void crosslane_fi_forget(struct lf_info *request) {
    if (request)
        library.freeinfo(request);
}

void crosslane_fi_shutdown(struct crosslane_fi_endpoint *endpoint) {
    endpoint->ep->cm->shutdown(endpoint->ep, 0);
}

const void *crosslane_fi_endpoint_fid(struct crosslane_fi_endpoint *endpoint) {
    return &endpoint->ep->fid;
}

int crosslane_fi_wait_fd(struct crosslane_fi_endpoint *endpoint) { return endpoint->wait_fd; }

/* The socket address of the other end, as far as the provider knows it. */
int crosslane_fi_peer_address(struct crosslane_fi_endpoint *endpoint, uint8_t *address,
                              uint64_t *bytes) {
    size_t length = *bytes;
    int result = endpoint->ep->cm->getpeer(endpoint->ep, address, &length);
    *bytes = length;
    return result;
}

/* --- Waiting for connections ------------------------------------------------------------- */

int crosslane_fi_listen(struct crosslane_fi_network *network, const char *node,
                        const char *service, int by_device, uint8_t *address,
                        uint64_t *address_bytes, struct crosslane_fi_listener **out) {
    struct lf_info *info = NULL, *hints = library.dupinfo(network->info);
    struct crosslane_fi_listener *listener = calloc(1, sizeof *listener);
    int result = -ENOMEM;
    if (!hints || !listener)
        goto failed;
    free(hints->src_addr);
    hints->src_addr = NULL;
    hints->src_addrlen = 0;
    hints->addr_format = LF_FORMAT_UNSPEC;
    if (!by_device) {
        free(hints->domain_attr->name);
        free(hints->fabric_attr->name);
        hints->domain_attr->name = hints->fabric_attr->name = NULL;
    }
    hints->domain_attr->domain = NULL;
    hints->fabric_attr->fabric = NULL;
    result = library.getinfo(API_VERSION, node, service, LF_SOURCE, hints, &info);
    if (result)
        goto failed;
    result = network->fabric->ops->passive_ep(network->fabric, info, &listener->pep, NULL);
    if (result)
        goto failed;
    result = lf_pep_bind(listener->pep, &network->eq->fid, 0);
    if (result)
        goto failed;
    result = listener->pep->cm->listen(listener->pep);
    if (result)
        goto failed;
    size_t bytes = *address_bytes;
    result = listener->pep->cm->getname(&listener->pep->fid, address, &bytes);
    *address_bytes = bytes;
    if (result)
        goto failed;
    library.freeinfo(hints);
    library.freeinfo(info);
    *out = listener;
    return 0;
failed:
    if (hints)
        library.freeinfo(hints);
    if (info)
        library.freeinfo(info);
    if (listener && listener->pep)
        lf_close(&listener->pep->fid);
    free(listener);
    return result;
}

const void *crosslane_fi_listener_fid(struct crosslane_fi_listener *listener) {
    return &listener->pep->fid;
}

void crosslane_fi_listener_free(struct crosslane_fi_listener *listener) {
    lf_close(&listener->pep->fid);
    free(listener);
}

/* --- What has happened ------------------------------------------------------------------- */

/* 1 with an event, 0 without one. */
int crosslane_fi_next_event(struct crosslane_fi_network *network,
                            struct crosslane_fi_event *event) {
    union {
        struct lf_eq_cm_entry entry;
        uint8_t room[sizeof(struct lf_eq_cm_entry) + 512];
    } read;
    uint32_t kind = 0;
    memset(event, 0, sizeof *event);
    ssize_t got = network->eq->ops->read(network->eq, &kind, &read, sizeof read, 0);
    if (got == -LF_EAGAIN)
        return 0;
    if (got == -LF_EAVAIL) {
        struct lf_eq_err_entry error;
        memset(&error, 0, sizeof error);
        got = network->eq->ops->readerr(network->eq, &error, 0);
        if (got == -LF_EAGAIN)
            return 0;
        if (got < 0)
            return (int)got;
        event->kind = EVENT_ERROR;
        event->fid = error.fid;
        event->error = error.err;
        const char *why = NULL;
        /* Of a connection that was refused it is an event's number, and negative. */
        if (network->hardware && error.prov_errno > 0)
            why = network->eq->ops->strerror(network->eq, error.prov_errno, error.err_data, NULL,
                                             0);
        copy_text(event->text, why && *why ? why : library.strerror(error.err));
        return 1;
    }
    if (got < 0)
        return (int)got;
    event->fid = read.entry.fid;
    switch (kind) {
    case LF_CONNREQ: event->kind = EVENT_REQUEST; event->request = read.entry.info; break;
    case LF_CONNECTED: event->kind = EVENT_CONNECTED; break;
    case LF_SHUTDOWN: event->kind = EVENT_SHUTDOWN; break;
    default: event->kind = EVENT_OTHER; break;
    }
    if ((size_t)got > sizeof read.entry) {
        size_t bytes = (size_t)got - sizeof read.entry;
        event->greeting_bytes = bytes < MAX_GREETING_BYTES ? bytes : MAX_GREETING_BYTES;
        memcpy(event->greeting, read.entry.data, event->greeting_bytes);
    }
    return 1;
}

/* Reads at most `most` completions; how many. One that failed comes alone. */
int crosslane_fi_completions(struct crosslane_fi_endpoint *endpoint,
                             struct crosslane_fi_completion *into, uint32_t most) {
    enum { BATCH = 32 };
    struct lf_cq_msg_entry entries[BATCH];
    ssize_t got = endpoint->cq->ops->read(endpoint->cq, entries, most < BATCH ? most : BATCH);
    if (got == -LF_EAGAIN)
        return 0;
    if (got == -LF_EAVAIL) {
        struct lf_cq_err_entry error;
        memset(&error, 0, sizeof error);
        got = endpoint->cq->ops->readerr(endpoint->cq, &error, 0);
        if (got == -LF_EAGAIN)
            return 0;
        if (got < 0)
            return (int)got;
        struct lf_context2 *context = error.op_context;
        into->slot = context >= endpoint->contexts && context < endpoint->contexts + endpoint->slots
                         ? (uint32_t)(context - endpoint->contexts)
                         : UINT32_MAX;
        into->error = error.err ? error.err : LF_EOTHER;
        into->bytes = 0;
        /* The providers in software leave in their own number whatever errno was. */
        const char *why = NULL;
        if (endpoint->network->hardware && error.prov_errno)
            why = endpoint->cq->ops->strerror(endpoint->cq, error.prov_errno, error.err_data, NULL,
                                              0);
        copy_text(into->text, why && *why ? why : library.strerror(into->error));
        return 1;
    }
    if (got < 0)
        return (int)got;
    for (ssize_t i = 0; i < got; i++) {
        struct lf_context2 *context = entries[i].op_context;
        into[i].slot = context >= endpoint->contexts &&
                               context < endpoint->contexts + endpoint->slots
                           ? (uint32_t)(context - endpoint->contexts)
                           : UINT32_MAX;
        into[i].error = 0;
        into[i].bytes = entries[i].len;
        into[i].text[0] = 0;
    }
    return (int)got;
}

/* 0 where it is safe to wait for the descriptor of the endpoint. */
int crosslane_fi_may_wait(struct crosslane_fi_endpoint *endpoint) {
    if (endpoint->wait_fd < 0)
        return 0;
    struct lf_fid *fid = &endpoint->cq->fid;
    return endpoint->network->fabric->ops->trywait(endpoint->network->fabric, &fid, 1);
}

/* 0 where it is safe to wait for the descriptor of the events. */
int crosslane_fi_may_wait_events(struct crosslane_fi_network *network) {
    if (!network->eq)
        return 0;
    struct lf_fid *fid = &network->eq->fid;
    return network->fabric->ops->trywait(network->fabric, &fid, 1);
}

/* --- Operations -------------------------------------------------------------------------- */

int crosslane_fi_send(struct crosslane_fi_endpoint *endpoint, uint32_t slot, const void *from,
                      uint64_t bytes, void *descriptor) {
    struct lf_fid_ep *ep = endpoint->ep;
    return (int)ep->msg->send(ep, from, bytes, descriptor, endpoint->peer,
                              &endpoint->contexts[slot]);
}

int crosslane_fi_receive(struct crosslane_fi_endpoint *endpoint, uint32_t slot, void *into,
                         uint64_t bytes, void *descriptor) {
    struct lf_fid_ep *ep = endpoint->ep;
    return (int)ep->msg->recv(ep, into, bytes, descriptor, LF_ADDR_UNSPEC,
                              &endpoint->contexts[slot]);
}

int crosslane_fi_read(struct crosslane_fi_endpoint *endpoint, uint32_t slot, void *into,
                      uint64_t bytes, void *descriptor, uint64_t address, uint64_t key) {
    struct lf_fid_ep *ep = endpoint->ep;
    return (int)ep->rma->read(ep, into, bytes, descriptor, endpoint->peer, address, key,
                              &endpoint->contexts[slot]);
}

int crosslane_fi_write(struct crosslane_fi_endpoint *endpoint, uint32_t slot, void *from,
                       uint64_t bytes, void *descriptor, uint64_t address, uint64_t key) {
    struct iovec near = {.iov_base = from, .iov_len = bytes};
    struct lf_rma_iov far = {.addr = address, .len = bytes, .key = key};
    struct lf_msg_rma message = {
        .msg_iov = &near,
        .desc = &descriptor,
        .iov_count = 1,
        .addr = endpoint->peer,
        .rma_iov = &far,
        .rma_iov_count = 1,
        .context = &endpoint->contexts[slot],
    };
    struct lf_fid_ep *ep = endpoint->ep;
    return (int)ep->rma->writemsg(ep, &message, LF_COMPLETION | LF_DELIVERY_COMPLETE);
}
