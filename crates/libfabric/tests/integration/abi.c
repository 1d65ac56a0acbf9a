/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Whether shim/abi.h says the same as libfabric's own headers: a compiler that takes this file has
 * compared every member and every constant. Nothing of it is run.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "../../shim/abi.h"

/* The test of this file looks whether a wrong value is found. */
#ifdef WRONG_VALUE
#undef LF_EAVAIL
#define LF_EAVAIL 258
#endif

#define SAME(own, theirs, member)                                                                  \
    _Static_assert(offsetof(struct own, member) == offsetof(struct theirs, member) &&              \
                       sizeof(((struct own *)0)->member) == sizeof(((struct theirs *)0)->member),  \
                   #theirs "." #member)
#define VALUE(name) _Static_assert((uint64_t)LF_##name == (uint64_t)FI_##name, #name)
#define SIZE(own, theirs)                                                                          \
    _Static_assert(sizeof(struct own) == sizeof(struct theirs), #theirs)

VALUE(ADDR_UNSPEC);
VALUE(AV_TABLE);
VALUE(AV_UNSPEC);
VALUE(COMPLETION);
VALUE(CONNECTED);
VALUE(CONNREQ);
VALUE(CONTEXT);
VALUE(CONTEXT2);
VALUE(CQ_FORMAT_MSG);
VALUE(DELIVERY_COMPLETE);
VALUE(EAGAIN);
VALUE(EAVAIL);
VALUE(ENABLE);
VALUE(EOTHER);
VALUE(EP_MSG);
VALUE(EP_RDM);
VALUE(FORMAT_UNSPEC);
VALUE(GETWAIT);
VALUE(MR_ALLOCATED);
VALUE(MR_LOCAL);
VALUE(MR_PROV_KEY);
VALUE(MR_VIRT_ADDR);
VALUE(MSG);
VALUE(ORDER_SAS);
VALUE(PROV_ATTR_ONLY);
VALUE(READ);
VALUE(RECV);
VALUE(REMOTE_READ);
VALUE(REMOTE_WRITE);
VALUE(RMA);
VALUE(SEND);
VALUE(SHUTDOWN);
VALUE(SOURCE);
VALUE(THREAD_DOMAIN);
VALUE(TRANSMIT);
VALUE(WAIT_FD);
VALUE(WAIT_NONE);
VALUE(WRITE);
_Static_assert(LF_VERSION(1, 17) == FI_VERSION(1, 17), "VERSION");

SAME(lf_ops, fi_ops, size);
SAME(lf_ops, fi_ops, close);
SAME(lf_ops, fi_ops, bind);
SAME(lf_ops, fi_ops, control);
SAME(lf_fid, fid, fclass);
SAME(lf_fid, fid, context);
SAME(lf_fid, fid, ops);
SAME(lf_tx_attr, fi_tx_attr, caps);
SAME(lf_tx_attr, fi_tx_attr, mode);
SAME(lf_tx_attr, fi_tx_attr, op_flags);
SAME(lf_tx_attr, fi_tx_attr, msg_order);
SAME(lf_tx_attr, fi_tx_attr, comp_order);
SAME(lf_tx_attr, fi_tx_attr, inject_size);
SAME(lf_tx_attr, fi_tx_attr, size);
SAME(lf_rx_attr, fi_rx_attr, caps);
SAME(lf_rx_attr, fi_rx_attr, mode);
SAME(lf_rx_attr, fi_rx_attr, op_flags);
SAME(lf_rx_attr, fi_rx_attr, msg_order);
SAME(lf_rx_attr, fi_rx_attr, comp_order);
SAME(lf_rx_attr, fi_rx_attr, total_buffered_recv);
SAME(lf_rx_attr, fi_rx_attr, size);
SAME(lf_ep_attr, fi_ep_attr, type);
SAME(lf_ep_attr, fi_ep_attr, protocol);
SAME(lf_ep_attr, fi_ep_attr, protocol_version);
SAME(lf_ep_attr, fi_ep_attr, max_msg_size);
SAME(lf_domain_attr, fi_domain_attr, domain);
SAME(lf_domain_attr, fi_domain_attr, name);
SAME(lf_domain_attr, fi_domain_attr, threading);
SAME(lf_domain_attr, fi_domain_attr, control_progress);
SAME(lf_domain_attr, fi_domain_attr, data_progress);
SAME(lf_domain_attr, fi_domain_attr, resource_mgmt);
SAME(lf_domain_attr, fi_domain_attr, av_type);
SAME(lf_domain_attr, fi_domain_attr, mr_mode);
SAME(lf_fabric_attr, fi_fabric_attr, fabric);
SAME(lf_fabric_attr, fi_fabric_attr, name);
SAME(lf_fabric_attr, fi_fabric_attr, prov_name);
SAME(lf_info, fi_info, next);
SAME(lf_info, fi_info, caps);
SAME(lf_info, fi_info, mode);
SAME(lf_info, fi_info, addr_format);
SAME(lf_info, fi_info, src_addrlen);
SAME(lf_info, fi_info, dest_addrlen);
SAME(lf_info, fi_info, src_addr);
SAME(lf_info, fi_info, dest_addr);
SAME(lf_info, fi_info, handle);
SAME(lf_info, fi_info, tx_attr);
SAME(lf_info, fi_info, rx_attr);
SAME(lf_info, fi_info, ep_attr);
SAME(lf_info, fi_info, domain_attr);
SAME(lf_info, fi_info, fabric_attr);
SAME(lf_eq_attr, fi_eq_attr, size);
SAME(lf_eq_attr, fi_eq_attr, flags);
SAME(lf_eq_attr, fi_eq_attr, wait_obj);
SAME(lf_eq_attr, fi_eq_attr, signaling_vector);
SAME(lf_eq_attr, fi_eq_attr, wait_set);
SAME(lf_eq_cm_entry, fi_eq_cm_entry, fid);
SAME(lf_eq_cm_entry, fi_eq_cm_entry, info);
SAME(lf_eq_err_entry, fi_eq_err_entry, fid);
SAME(lf_eq_err_entry, fi_eq_err_entry, context);
SAME(lf_eq_err_entry, fi_eq_err_entry, data);
SAME(lf_eq_err_entry, fi_eq_err_entry, err);
SAME(lf_eq_err_entry, fi_eq_err_entry, prov_errno);
SAME(lf_eq_err_entry, fi_eq_err_entry, err_data);
SAME(lf_eq_err_entry, fi_eq_err_entry, err_data_size);
SAME(lf_ops_eq, fi_ops_eq, size);
SAME(lf_ops_eq, fi_ops_eq, read);
SAME(lf_ops_eq, fi_ops_eq, readerr);
SAME(lf_ops_eq, fi_ops_eq, write);
SAME(lf_ops_eq, fi_ops_eq, sread);
SAME(lf_ops_eq, fi_ops_eq, strerror);
SAME(lf_fid_eq, fid_eq, fid);
SAME(lf_fid_eq, fid_eq, ops);
SAME(lf_cq_attr, fi_cq_attr, size);
SAME(lf_cq_attr, fi_cq_attr, flags);
SAME(lf_cq_attr, fi_cq_attr, format);
SAME(lf_cq_attr, fi_cq_attr, wait_obj);
SAME(lf_cq_attr, fi_cq_attr, signaling_vector);
SAME(lf_cq_attr, fi_cq_attr, wait_cond);
SAME(lf_cq_attr, fi_cq_attr, wait_set);
SAME(lf_cq_msg_entry, fi_cq_msg_entry, op_context);
SAME(lf_cq_msg_entry, fi_cq_msg_entry, flags);
SAME(lf_cq_msg_entry, fi_cq_msg_entry, len);
SAME(lf_cq_err_entry, fi_cq_err_entry, op_context);
SAME(lf_cq_err_entry, fi_cq_err_entry, flags);
SAME(lf_cq_err_entry, fi_cq_err_entry, len);
SAME(lf_cq_err_entry, fi_cq_err_entry, buf);
SAME(lf_cq_err_entry, fi_cq_err_entry, data);
SAME(lf_cq_err_entry, fi_cq_err_entry, tag);
SAME(lf_cq_err_entry, fi_cq_err_entry, olen);
SAME(lf_cq_err_entry, fi_cq_err_entry, err);
SAME(lf_cq_err_entry, fi_cq_err_entry, prov_errno);
SAME(lf_cq_err_entry, fi_cq_err_entry, err_data);
SAME(lf_cq_err_entry, fi_cq_err_entry, err_data_size);
SAME(lf_ops_cq, fi_ops_cq, size);
SAME(lf_ops_cq, fi_ops_cq, read);
SAME(lf_ops_cq, fi_ops_cq, readfrom);
SAME(lf_ops_cq, fi_ops_cq, readerr);
SAME(lf_ops_cq, fi_ops_cq, sread);
SAME(lf_ops_cq, fi_ops_cq, sreadfrom);
SAME(lf_ops_cq, fi_ops_cq, signal);
SAME(lf_ops_cq, fi_ops_cq, strerror);
SAME(lf_fid_cq, fid_cq, fid);
SAME(lf_fid_cq, fid_cq, ops);
SAME(lf_av_attr, fi_av_attr, type);
SAME(lf_av_attr, fi_av_attr, rx_ctx_bits);
SAME(lf_av_attr, fi_av_attr, count);
SAME(lf_av_attr, fi_av_attr, ep_per_node);
SAME(lf_av_attr, fi_av_attr, name);
SAME(lf_av_attr, fi_av_attr, map_addr);
SAME(lf_av_attr, fi_av_attr, flags);
SAME(lf_ops_av, fi_ops_av, size);
SAME(lf_ops_av, fi_ops_av, insert);
SAME(lf_fid_av, fid_av, fid);
SAME(lf_fid_av, fid_av, ops);
SAME(lf_fid_mr, fid_mr, fid);
SAME(lf_fid_mr, fid_mr, mem_desc);
SAME(lf_fid_mr, fid_mr, key);
SAME(lf_ops_mr, fi_ops_mr, size);
SAME(lf_ops_mr, fi_ops_mr, reg);
SAME(lf_context2, fi_context2, internal);
SAME(lf_ops_cm, fi_ops_cm, size);
SAME(lf_ops_cm, fi_ops_cm, setname);
SAME(lf_ops_cm, fi_ops_cm, getname);
SAME(lf_ops_cm, fi_ops_cm, getpeer);
SAME(lf_ops_cm, fi_ops_cm, connect);
SAME(lf_ops_cm, fi_ops_cm, listen);
SAME(lf_ops_cm, fi_ops_cm, accept);
SAME(lf_ops_cm, fi_ops_cm, reject);
SAME(lf_ops_cm, fi_ops_cm, shutdown);
SAME(lf_ops_msg, fi_ops_msg, size);
SAME(lf_ops_msg, fi_ops_msg, recv);
SAME(lf_ops_msg, fi_ops_msg, recvv);
SAME(lf_ops_msg, fi_ops_msg, recvmsg);
SAME(lf_ops_msg, fi_ops_msg, send);
SAME(lf_rma_iov, fi_rma_iov, addr);
SAME(lf_rma_iov, fi_rma_iov, len);
SAME(lf_rma_iov, fi_rma_iov, key);
SAME(lf_msg_rma, fi_msg_rma, msg_iov);
SAME(lf_msg_rma, fi_msg_rma, desc);
SAME(lf_msg_rma, fi_msg_rma, iov_count);
SAME(lf_msg_rma, fi_msg_rma, addr);
SAME(lf_msg_rma, fi_msg_rma, rma_iov);
SAME(lf_msg_rma, fi_msg_rma, rma_iov_count);
SAME(lf_msg_rma, fi_msg_rma, context);
SAME(lf_msg_rma, fi_msg_rma, data);
SAME(lf_ops_rma, fi_ops_rma, size);
SAME(lf_ops_rma, fi_ops_rma, read);
SAME(lf_ops_rma, fi_ops_rma, readv);
SAME(lf_ops_rma, fi_ops_rma, readmsg);
SAME(lf_ops_rma, fi_ops_rma, write);
SAME(lf_ops_rma, fi_ops_rma, writev);
SAME(lf_ops_rma, fi_ops_rma, writemsg);
SAME(lf_fid_ep, fid_ep, fid);
SAME(lf_fid_ep, fid_ep, ops);
SAME(lf_fid_ep, fid_ep, cm);
SAME(lf_fid_ep, fid_ep, msg);
SAME(lf_fid_ep, fid_ep, rma);
SAME(lf_fid_pep, fid_pep, fid);
SAME(lf_fid_pep, fid_pep, ops);
SAME(lf_fid_pep, fid_pep, cm);
SAME(lf_ops_domain, fi_ops_domain, size);
SAME(lf_ops_domain, fi_ops_domain, av_open);
SAME(lf_ops_domain, fi_ops_domain, cq_open);
SAME(lf_ops_domain, fi_ops_domain, endpoint);
SAME(lf_fid_domain, fid_domain, fid);
SAME(lf_fid_domain, fid_domain, ops);
SAME(lf_fid_domain, fid_domain, mr);
SAME(lf_ops_fabric, fi_ops_fabric, size);
SAME(lf_ops_fabric, fi_ops_fabric, domain);
SAME(lf_ops_fabric, fi_ops_fabric, passive_ep);
SAME(lf_ops_fabric, fi_ops_fabric, eq_open);
SAME(lf_ops_fabric, fi_ops_fabric, wait_open);
SAME(lf_ops_fabric, fi_ops_fabric, trywait);
SAME(lf_fid_fabric, fid_fabric, fid);
SAME(lf_fid_fabric, fid_fabric, ops);

SIZE(lf_eq_attr, fi_eq_attr);
SIZE(lf_eq_err_entry, fi_eq_err_entry);
SIZE(lf_cq_attr, fi_cq_attr);
SIZE(lf_cq_msg_entry, fi_cq_msg_entry);
SIZE(lf_av_attr, fi_av_attr);
SIZE(lf_context2, fi_context2);
SIZE(lf_rma_iov, fi_rma_iov);
SIZE(lf_msg_rma, fi_msg_rma);
_Static_assert(offsetof(struct lf_eq_cm_entry, data) == offsetof(struct fi_eq_cm_entry, data),
               "data");
_Static_assert(sizeof(struct lf_cq_err_entry) >= sizeof(struct fi_cq_err_entry), "error");
