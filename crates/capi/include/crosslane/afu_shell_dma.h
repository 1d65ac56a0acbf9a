// SPDX-License-Identifier: Apache-2.0 OR MIT
// The DMA call of the sbdt paper over crosslane.h, with its parameters (Listing 1). The paper leaves
// the values of its types to the vendor's library; these are that library's where it has them.
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
	switch (crosslane_dma_transfer(dma_tx_h, &job)) {
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

#endif
