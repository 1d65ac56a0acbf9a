/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What is used of libfabric's binary interface, declared here: the library is loaded when a
 * network is asked for, and a program can be built where its headers are not. Names are those of
 * the manual pages with lf_ and LF_ in place of fi_ and FI_; of tables of functions those that are
 * not used are `void *`, and what nobody looks at behind the last member is left out.
 *
 * The layout of fi_info and what hangs on it is that of the symbol version FABRIC_1.3, which later
 * libraries keep; crosslane_fi_load asks for exactly that. Other structures grow at their end only,
 * by the version that a program asks for in fi_getinfo: here 1.17. A test compares all of this with
 * the headers where they are installed (tests/integration/abi.c).
 */
#ifndef CROSSLANE_LIBFABRIC_ABI_H
#define CROSSLANE_LIBFABRIC_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define LF_VERSION(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))

/* Capabilities, rights and flags of operations. */
#define LF_MSG ((uint64_t)1 << 1)
#define LF_RMA ((uint64_t)1 << 2)
#define LF_READ ((uint64_t)1 << 8)
#define LF_WRITE ((uint64_t)1 << 9)
#define LF_RECV ((uint64_t)1 << 10)
#define LF_SEND ((uint64_t)1 << 11)
#define LF_TRANSMIT LF_SEND
#define LF_REMOTE_READ ((uint64_t)1 << 12)
#define LF_REMOTE_WRITE ((uint64_t)1 << 13)
#define LF_COMPLETION ((uint64_t)1 << 24)
#define LF_DELIVERY_COMPLETE ((uint64_t)1 << 28)
#define LF_PROV_ATTR_ONLY ((uint64_t)1 << 54)
#define LF_SOURCE ((uint64_t)1 << 57)
/* Modes: what the program does for a provider. */
#define LF_CONTEXT ((uint64_t)1 << 59)
#define LF_CONTEXT2 ((uint64_t)1 << 52)
/* Order: a send after a send. */
#define LF_ORDER_SAS ((uint64_t)1 << 8)
/* Modes of registered memory. */
#define LF_MR_LOCAL (1 << 2)
#define LF_MR_VIRT_ADDR (1 << 4)
#define LF_MR_ALLOCATED (1 << 5)
#define LF_MR_PROV_KEY (1 << 6)

#define LF_ADDR_UNSPEC UINT64_MAX
/* Errors beside those of errno. */
#define LF_EAGAIN 11
#define LF_EOTHER 256
#define LF_EAVAIL 259

enum { LF_FORMAT_UNSPEC = 0 };
enum { LF_EP_MSG = 1, LF_EP_RDM = 3 };
enum { LF_THREAD_DOMAIN = 3 };
enum { LF_AV_UNSPEC = 0, LF_AV_TABLE = 2 };
enum { LF_WAIT_NONE = 0, LF_WAIT_FD = 3 };
enum { LF_CQ_FORMAT_MSG = 2 };
enum { LF_CONNREQ = 1, LF_CONNECTED = 2, LF_SHUTDOWN = 3 };
/* Commands of `control`. */
enum { LF_GETWAIT = 5, LF_ENABLE = 6 };

typedef uint64_t lf_addr_t;

/* --- What every object begins with ---------------------------------------------------------- */

struct lf_fid;

struct lf_ops {
    size_t size;
    int (*close)(struct lf_fid *fid);
    int (*bind)(struct lf_fid *fid, struct lf_fid *other, uint64_t flags);
    int (*control)(struct lf_fid *fid, int command, void *argument);
};

struct lf_fid {
    size_t fclass;
    void *context;
    struct lf_ops *ops;
};

/* --- What is asked for, and offered --------------------------------------------------------- */

struct lf_tx_attr {
    uint64_t caps, mode, op_flags, msg_order, comp_order;
    size_t inject_size, size;
};

struct lf_rx_attr {
    uint64_t caps, mode, op_flags, msg_order, comp_order;
    size_t total_buffered_recv, size;
};

struct lf_ep_attr {
    int type;
    uint32_t protocol, protocol_version;
    size_t max_msg_size;
};

struct lf_fid_domain;
struct lf_fid_fabric;

struct lf_domain_attr {
    struct lf_fid_domain *domain;
    char *name;
    int threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode;
};

struct lf_fabric_attr {
    struct lf_fid_fabric *fabric;
    char *name, *prov_name;
};

struct lf_info {
    struct lf_info *next;
    uint64_t caps, mode;
    uint32_t addr_format;
    size_t src_addrlen, dest_addrlen;
    void *src_addr, *dest_addr;
    struct lf_fid *handle;
    struct lf_tx_attr *tx_attr;
    struct lf_rx_attr *rx_attr;
    struct lf_ep_attr *ep_attr;
    struct lf_domain_attr *domain_attr;
    struct lf_fabric_attr *fabric_attr;
};

/* --- Queues of events and completions ------------------------------------------------------- */

struct lf_eq_attr {
    size_t size;
    uint64_t flags;
    int wait_obj, signaling_vector;
    void *wait_set;
};

struct lf_eq_cm_entry {
    struct lf_fid *fid;
    struct lf_info *info;
    uint8_t data[];
};

struct lf_eq_err_entry {
    struct lf_fid *fid;
    void *context;
    uint64_t data;
    int err, prov_errno;
    void *err_data;
    size_t err_data_size;
};

struct lf_fid_eq;

struct lf_ops_eq {
    size_t size;
    ssize_t (*read)(struct lf_fid_eq *eq, uint32_t *event, void *into, size_t bytes,
                    uint64_t flags);
    ssize_t (*readerr)(struct lf_fid_eq *eq, struct lf_eq_err_entry *into, uint64_t flags);
    void *write, *sread;
    const char *(*strerror)(struct lf_fid_eq *eq, int number, const void *data, char *into,
                            size_t bytes);
};

struct lf_fid_eq {
    struct lf_fid fid;
    struct lf_ops_eq *ops;
};

struct lf_cq_attr {
    size_t size;
    uint64_t flags;
    int format, wait_obj, signaling_vector, wait_cond;
    void *wait_set;
};

struct lf_cq_msg_entry {
    void *op_context;
    uint64_t flags;
    size_t len;
};

struct lf_cq_err_entry {
    void *op_context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data, tag;
    size_t olen;
    int err, prov_errno;
    void *err_data;
    size_t err_data_size;
    /* Room for what later versions have behind it. */
    uint64_t spare[8];
};

struct lf_fid_cq;

struct lf_ops_cq {
    size_t size;
    ssize_t (*read)(struct lf_fid_cq *cq, void *into, size_t count);
    void *readfrom;
    ssize_t (*readerr)(struct lf_fid_cq *cq, struct lf_cq_err_entry *into, uint64_t flags);
    void *sread, *sreadfrom, *signal;
    const char *(*strerror)(struct lf_fid_cq *cq, int number, const void *data, char *into,
                            size_t bytes);
};

struct lf_fid_cq {
    struct lf_fid fid;
    struct lf_ops_cq *ops;
};

/* --- Addresses and memory ------------------------------------------------------------------- */

struct lf_av_attr {
    int type, rx_ctx_bits;
    size_t count, ep_per_node;
    const char *name;
    void *map_addr;
    uint64_t flags;
};

struct lf_fid_av;

struct lf_ops_av {
    size_t size;
    int (*insert)(struct lf_fid_av *av, const void *names, size_t count, lf_addr_t *addresses,
                  uint64_t flags, void *context);
};

struct lf_fid_av {
    struct lf_fid fid;
    struct lf_ops_av *ops;
};

struct lf_fid_mr {
    struct lf_fid fid;
    void *mem_desc;
    uint64_t key;
};

struct lf_ops_mr {
    size_t size;
    int (*reg)(struct lf_fid *domain, const void *memory, size_t bytes, uint64_t access,
               uint64_t offset, uint64_t wanted_key, uint64_t flags, struct lf_fid_mr **into,
               void *context);
};

/* --- Endpoints ------------------------------------------------------------------------------ */

struct lf_fid_ep;
struct lf_fid_pep;

/* What the library keeps of an operation under way. */
struct lf_context2 {
    void *internal[8];
};

struct lf_ops_cm {
    size_t size;
    void *setname;
    int (*getname)(struct lf_fid *fid, void *name, size_t *bytes);
    int (*getpeer)(struct lf_fid_ep *ep, void *address, size_t *bytes);
    int (*connect)(struct lf_fid_ep *ep, const void *address, const void *greeting, size_t bytes);
    int (*listen)(struct lf_fid_pep *pep);
    int (*accept)(struct lf_fid_ep *ep, const void *greeting, size_t bytes);
    int (*reject)(struct lf_fid_pep *pep, struct lf_fid *handle, const void *greeting,
                  size_t bytes);
    int (*shutdown)(struct lf_fid_ep *ep, uint64_t flags);
};

struct lf_ops_msg {
    size_t size;
    ssize_t (*recv)(struct lf_fid_ep *ep, void *into, size_t bytes, void *descriptor,
                    lf_addr_t from, void *context);
    void *recvv, *recvmsg;
    ssize_t (*send)(struct lf_fid_ep *ep, const void *from, size_t bytes, void *descriptor,
                    lf_addr_t to, void *context);
};

struct lf_rma_iov {
    uint64_t addr;
    size_t len;
    uint64_t key;
};

struct lf_msg_rma {
    const struct iovec *msg_iov;
    void **desc;
    size_t iov_count;
    lf_addr_t addr;
    const struct lf_rma_iov *rma_iov;
    size_t rma_iov_count;
    void *context;
    uint64_t data;
};

struct lf_ops_rma {
    size_t size;
    ssize_t (*read)(struct lf_fid_ep *ep, void *into, size_t bytes, void *descriptor,
                    lf_addr_t from, uint64_t address, uint64_t key, void *context);
    void *readv, *readmsg, *write, *writev;
    ssize_t (*writemsg)(struct lf_fid_ep *ep, const struct lf_msg_rma *message, uint64_t flags);
};

struct lf_fid_ep {
    struct lf_fid fid;
    void *ops;
    struct lf_ops_cm *cm;
    struct lf_ops_msg *msg;
    struct lf_ops_rma *rma;
};

struct lf_fid_pep {
    struct lf_fid fid;
    void *ops;
    struct lf_ops_cm *cm;
};

/* --- Domains and fabrics -------------------------------------------------------------------- */

struct lf_ops_domain {
    size_t size;
    int (*av_open)(struct lf_fid_domain *domain, struct lf_av_attr *attributes,
                   struct lf_fid_av **into, void *context);
    int (*cq_open)(struct lf_fid_domain *domain, struct lf_cq_attr *attributes,
                   struct lf_fid_cq **into, void *context);
    int (*endpoint)(struct lf_fid_domain *domain, struct lf_info *info, struct lf_fid_ep **into,
                    void *context);
};

struct lf_fid_domain {
    struct lf_fid fid;
    struct lf_ops_domain *ops;
    struct lf_ops_mr *mr;
};

struct lf_ops_fabric {
    size_t size;
    int (*domain)(struct lf_fid_fabric *fabric, struct lf_info *info, struct lf_fid_domain **into,
                  void *context);
    int (*passive_ep)(struct lf_fid_fabric *fabric, struct lf_info *info, struct lf_fid_pep **into,
                      void *context);
    int (*eq_open)(struct lf_fid_fabric *fabric, struct lf_eq_attr *attributes,
                   struct lf_fid_eq **into, void *context);
    void *wait_open;
    int (*trywait)(struct lf_fid_fabric *fabric, struct lf_fid **fids, int count);
};

struct lf_fid_fabric {
    struct lf_fid fid;
    struct lf_ops_fabric *ops;
};

/* --- What the library exports, all else being functions of its objects ---------------------- */

typedef int lf_getinfo_t(uint32_t version, const char *node, const char *service, uint64_t flags,
                         const struct lf_info *hints, struct lf_info **into);
typedef void lf_freeinfo_t(struct lf_info *info);
typedef struct lf_info *lf_dupinfo_t(const struct lf_info *info);
typedef int lf_fabric_t(struct lf_fabric_attr *attributes, struct lf_fid_fabric **into,
                        void *context);
typedef const char *lf_strerror_t(int error);
typedef uint32_t lf_version_t(void);

/* --- Functions of objects, by their names in the manual pages ------------------------------- */

static inline int lf_close(struct lf_fid *fid) { return fid->ops->close(fid); }

static inline int lf_control(struct lf_fid *fid, int command, void *argument) {
    return fid->ops->control(fid, command, argument);
}

static inline int lf_enable(struct lf_fid_ep *ep) {
    return lf_control(&ep->fid, LF_ENABLE, NULL);
}

static inline int lf_ep_bind(struct lf_fid_ep *ep, struct lf_fid *other, uint64_t flags) {
    return ep->fid.ops->bind(&ep->fid, other, flags);
}

static inline int lf_pep_bind(struct lf_fid_pep *pep, struct lf_fid *other, uint64_t flags) {
    return pep->fid.ops->bind(&pep->fid, other, flags);
}

#endif
