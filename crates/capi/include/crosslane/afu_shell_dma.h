// SPDX-License-Identifier: Apache-2.0 OR MIT
// The DMA call of the sbdt paper and its remote call over crosslane.h, with their parameters
// (Listings 1 and 2); the server's side is `crosslane bridge serve`. The paper leaves the values of
// its types to the vendor's library; these are that library's where it has them.
#ifndef CROSSLANE_AFU_SHELL_DMA_H
#define CROSSLANE_AFU_SHELL_DMA_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../crosslane.h"

typedef enum {
	FPGA_OK = 0,
	FPGA_INVALID_PARAM = 1,
	FPGA_BUSY = 2,
	FPGA_EXCEPTION = 3,
	FPGA_NOT_FOUND = 4,
	FPGA_NO_MEMORY = 5,
	FPGA_NOT_SUPPORTED = 6
} fpga_result;

typedef enum {
	HOST_TO_FPGA_MM = 0,
	FPGA_TO_HOST_MM = 1,
	FPGA_TO_FPGA_MM = 2,
	// Through the compute core, and back into host memory.
	HOST_TO_HOST_MM = 3
} dma_transfer_type_t;

// Both controllers are one crosslane_dma, which crosslane_dma_open() makes.
typedef crosslane_dma *dma_handle_t;

// Returns the vendor's result for a code of crosslane.h.
static inline fpga_result crosslane_fpga_result(int code) {
	switch (code) {
	case 0:
		return FPGA_OK;
	case -EINVAL:
	case -EBADF:
	case -EPERM:
		return FPGA_INVALID_PARAM;
	case -EBUSY:
		return FPGA_BUSY;
	case -ENOENT:
		return FPGA_NOT_FOUND;
	case -EOPNOTSUPP:
		return FPGA_NOT_SUPPORTED;
	default:
		return FPGA_EXCEPTION;
	}
}

// Moves `count` bytes, and waits. An address of the card's memory is passed as a pointer.
static inline fpga_result afuShellDMATransfer(void *dst, const void *src, size_t count,
					      dma_transfer_type_t type, dma_handle_t dma_tx_h,
					      dma_handle_t dma_rx_h) {
	if (dma_tx_h != dma_rx_h)
		return FPGA_INVALID_PARAM;
	crosslane_dma_job job;
	memset(&job, 0, sizeof job);
	job.size = sizeof job;
	job.bytes = count;
	job.timeout_ns = CROSSLANE_FOREVER;
	switch (type) {
	case HOST_TO_FPGA_MM:
		job.kind = CROSSLANE_DMA_TO_CARD;
		job.from = src;
		job.card_to = (uintptr_t)dst;
		break;
	case FPGA_TO_HOST_MM:
		job.kind = CROSSLANE_DMA_FROM_CARD;
		job.card_from = (uintptr_t)src;
		job.to = dst;
		break;
	case FPGA_TO_FPGA_MM:
		job.kind = CROSSLANE_DMA_WITHIN_CARD;
		job.card_from = (uintptr_t)src;
		job.card_to = (uintptr_t)dst;
		break;
	case HOST_TO_HOST_MM:
		job.kind = CROSSLANE_DMA_THROUGH_CARD;
		job.from = src;
		job.to = dst;
		break;
	default:
		return FPGA_INVALID_PARAM;
	}
	return crosslane_fpga_result(crosslane_dma_transfer(dma_tx_h, &job));
}

// The remote call (Listing 2): a card behind a bridge's server, and the connection to it.
typedef struct {
	crosslane_bridge *bridge;
	const char *card;
} crosslane_remote_card;
typedef crosslane_remote_card *remote_fpga_dma_handle_t;
typedef fpga_result remote_fpga_result;
typedef dma_transfer_type_t afu_shell_dma_transfer_type_t;

// Moves `tf_len` bytes, and waits. Addresses of host memory are those of this program, whose data are
// copied to and from memory that is registered for the call.
static inline remote_fpga_result
remoteAfuShellDMATransfer(uint64_t src, uint64_t dst, uint64_t tf_len,
			  afu_shell_dma_transfer_type_t tf_type, remote_fpga_dma_handle_t dma_tx_h,
			  remote_fpga_dma_handle_t dma_rx_h) {
	if (dma_tx_h == NULL || dma_tx_h != dma_rx_h)
		return FPGA_INVALID_PARAM;
	if (tf_type == FPGA_TO_FPGA_MM)
		return FPGA_NOT_SUPPORTED;
	int reads = tf_type != FPGA_TO_HOST_MM, writes = tf_type != HOST_TO_FPGA_MM;
	crosslane_bridge_job job;
	memset(&job, 0, sizeof job);
	job.size = sizeof job;
	job.card = dma_tx_h->card;
	job.bytes = tf_len;
	job.timeout_ns = CROSSLANE_FOREVER;
	job.kind = !writes ? CROSSLANE_DMA_TO_CARD
		 : !reads  ? CROSSLANE_DMA_FROM_CARD
			   : CROSSLANE_DMA_THROUGH_CARD;
	job.card_address = !writes ? dst : src;
	int code = 0;
	if (reads)
		code = crosslane_bridge_memory_create(dma_tx_h->bridge, tf_len, &job.from);
	if (code == 0 && reads)
		code = crosslane_bridge_memory_write(job.from, 0, (const void *)(uintptr_t)src,
						     (size_t)tf_len);
	if (code == 0 && writes)
		code = crosslane_bridge_memory_create(dma_tx_h->bridge, tf_len, &job.to);
	if (code == 0)
		code = crosslane_bridge_transfer(dma_tx_h->bridge, &job, NULL);
	if (code == 0 && writes)
		code = crosslane_bridge_memory_read(job.to, 0, (void *)(uintptr_t)dst, (size_t)tf_len);
	if (job.from != NULL)
		crosslane_bridge_memory_destroy(job.from);
	if (job.to != NULL)
		crosslane_bridge_memory_destroy(job.to);
	return crosslane_fpga_result(code);
}

#endif
