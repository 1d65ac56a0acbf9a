// SPDX-License-Identifier: Apache-2.0 OR MIT
// The calls of the aws-f1 paper over crosslane.h: attach a BAR, and write bursts into it. Programs that
// use them compile against this header line by line. It has state, so one file of a program
// includes it.
//
// Slots are cards by name, in the environment: CROSSLANE_SLOTS="lab:aws-f1/f1,vfio:03:00.0". Without it
// slot 0 is the card of the lab aws-f1. There is no fpga_pci_get_address: a lab's card has no address in
// the program; crosslane_fpga_pci_move() stands for the paper's own loop of wide stores.
#ifndef CROSSLANE_FPGA_PCI_H
#define CROSSLANE_FPGA_PCI_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../crosslane.h"

typedef int pci_bar_handle_t;

// The flag of fpga_pci_attach: the BAR is mapped write-combined.
enum { BURST_CAPABLE = 1 };

enum { CROSSLANE_FPGA_SLOTS = 8, CROSSLANE_FPGA_HANDLES = 64 };

struct crosslane_fpga_slot {
	crosslane_session *session;
	crosslane_memory_card *card;
	const char *endpoint;
};

static struct crosslane_fpga_slot crosslane_fpga_slots[CROSSLANE_FPGA_SLOTS];
static struct {
	crosslane_window *window;
	int slot;
} crosslane_fpga_bars[CROSSLANE_FPGA_HANDLES];

// Opens the card of a slot, once.
static inline int crosslane_fpga_open(int slot_id) {
	if (slot_id < 0 || slot_id >= CROSSLANE_FPGA_SLOTS)
		return -EINVAL;
	struct crosslane_fpga_slot *slot = &crosslane_fpga_slots[slot_id];
	if (slot->session != NULL)
		return 0;
	const char *names = getenv("CROSSLANE_SLOTS");
	if (names == NULL)
		names = "lab:aws-f1/f1";
	for (int before = 0; before < slot_id; before++) {
		names = strchr(names, ',');
		if (names == NULL)
			return -ENODEV;
		names++;
	}
	char name[256];
	size_t length = strcspn(names, ",");
	if (length == 0 || length >= sizeof name)
		return -ENODEV;
	memcpy(name, names, length);
	name[length] = '\0';
	int code = crosslane_session_open(name, NULL, &slot->session);
	if (code < 0)
		return code;
	crosslane_card card;
	memset(&card, 0, sizeof card);
	card.size = sizeof card;
	code = crosslane_session_card(slot->session, 0, &card);
	if (code == 0)
		code = crosslane_memory_card_open(slot->session, card.endpoint, &slot->card);
	if (code < 0) {
		crosslane_session_close(slot->session);
		slot->session = NULL;
		return code;
	}
	slot->endpoint = card.endpoint;
	return 0;
}

// Returns the window of a handle, or NULL.
static inline crosslane_window *crosslane_fpga_window(pci_bar_handle_t handle) {
	int is_one = handle >= 0 && handle < CROSSLANE_FPGA_HANDLES;
	return is_one ? crosslane_fpga_bars[handle].window : NULL;
}

// Maps a BAR of a card, write-combined if the flags say BURST_CAPABLE.
static inline int fpga_pci_attach(int slot_id, int pf_id, int bar_id, uint32_t flags,
				  pci_bar_handle_t *handle) {
	if (pf_id != 0 || bar_id < 0 || handle == NULL)
		return -EINVAL;
	int code = crosslane_fpga_open(slot_id);
	if (code < 0)
		return code;
	pci_bar_handle_t made = 0;
	while (made < CROSSLANE_FPGA_HANDLES && crosslane_fpga_bars[made].window != NULL)
		made++;
	if (made == CROSSLANE_FPGA_HANDLES)
		return -EMFILE;
	crosslane_window_attr attr;
	memset(&attr, 0, sizeof attr);
	attr.size = sizeof attr;
	attr.bar = (uint32_t)bar_id;
	attr.mapping = flags & BURST_CAPABLE ? CROSSLANE_WRITE_COMBINED : CROSSLANE_UNCACHED;
	// BAR 4 is the card's memory.
	attr.contents = bar_id == 4 ? CROSSLANE_CONTENTS_MEMORY : CROSSLANE_CONTENTS_REGISTERS;
	code = crosslane_window_open(crosslane_fpga_slots[slot_id].session,
				     crosslane_fpga_slots[slot_id].endpoint, &attr,
				     &crosslane_fpga_bars[made].window);
	if (code < 0)
		return code;
	crosslane_fpga_bars[made].slot = slot_id;
	*handle = made;
	return 0;
}

// Unmaps a BAR.
static inline int fpga_pci_detach(pci_bar_handle_t handle) {
	crosslane_window *window = crosslane_fpga_window(handle);
	if (window == NULL)
		return -EINVAL;
	crosslane_fpga_bars[handle].window = NULL;
	return crosslane_window_close(window);
}

// Stores 32-bit words one by one.
static inline int fpga_pci_write_burst(pci_bar_handle_t handle, uint64_t offset, uint32_t *datap,
				       uint64_t dword_len) {
	return crosslane_window_write(crosslane_fpga_window(handle), offset, datap,
				      (size_t)dword_len * 4, 4);
}

// Stores one word.
static inline int fpga_pci_poke(pci_bar_handle_t handle, uint64_t offset, uint32_t value) {
	return crosslane_window_write(crosslane_fpga_window(handle), offset, &value, sizeof value, 4);
}

// Loads one word.
static inline int fpga_pci_peek(pci_bar_handle_t handle, uint64_t offset, uint32_t *value) {
	return crosslane_window_read(crosslane_fpga_window(handle), offset, value, sizeof *value);
}

// Stores with the widest stores of the processor, as the memcpy of the paper's custom_move does.
static inline int crosslane_fpga_pci_move(pci_bar_handle_t handle, uint64_t offset,
					  const void *datap, uint64_t bytes) {
	return crosslane_window_write(crosslane_fpga_window(handle), offset, datap, (size_t)bytes, 0);
}

// Reads the clock of a slot's card, in ps: simulated time in a lab.
static inline int crosslane_fpga_now(pci_bar_handle_t handle, uint64_t *now_ps) {
	if (crosslane_fpga_window(handle) == NULL)
		return -EINVAL;
	return crosslane_session_now(crosslane_fpga_slots[crosslane_fpga_bars[handle].slot].session,
				     now_ps);
}

// Takes a card's counters, which begin anew: what fpga-describe-local-image -C shows.
static inline int crosslane_fpga_metrics(int slot_id, crosslane_memory_card_counters *counters) {
	int code = crosslane_fpga_open(slot_id);
	return code < 0 ? code : crosslane_memory_card_take(crosslane_fpga_slots[slot_id].card, counters);
}

#endif
