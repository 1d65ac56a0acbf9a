// SPDX-License-Identifier: Apache-2.0 OR MIT
// The calls of the nget paper over crosslane.h: start a get by link, virtual channel and tag, and
// wait for its notification. It has state, the node's card, so one file of a program includes it.
#ifndef CROSSLANE_NGET_H
#define CROSSLANE_NGET_H

#include <stdint.h>
#include <string.h>

#include "../crosslane.h"

static crosslane_network *crosslane_nget_card;

// Opens the node's network processor, by its name in the session's tree.
static inline int nget_init(crosslane_session *session, const char *function) {
	return crosslane_network_open(session, function, NULL, &crosslane_nget_card);
}

// Resets it, and closes it.
static inline int nget_release(void) {
	crosslane_network *card = crosslane_nget_card;
	crosslane_nget_card = NULL;
	return crosslane_network_close(card);
}

// Memory for messages.
static inline int nget_buffer(uint64_t bytes, crosslane_buffer **buffer) {
	return crosslane_network_buffer_create(crosslane_nget_card, bytes, buffer);
}

static inline crosslane_message crosslane_nget_key(unsigned lnk, unsigned vc, unsigned tag) {
	crosslane_message message;
	memset(&message, 0, sizeof message);
	message.size = sizeof message;
	message.link = lnk;
	message.channel = vc;
	message.tag = tag;
	return message;
}

// Sends the first `bytes` bytes of a buffer.
static inline int nget(unsigned lnk, unsigned vc, unsigned tag, crosslane_buffer *buffer,
		       uint64_t bytes) {
	crosslane_message message = crosslane_nget_key(lnk, vc, tag);
	message.buffer = buffer;
	message.bytes = bytes;
	return crosslane_network_get(crosslane_nget_card, &message);
}

// Makes room for a message: RX_i of the paper.
static inline int nget_credit(unsigned lnk, unsigned vc, unsigned tag, crosslane_buffer *buffer,
			      uint64_t bytes) {
	crosslane_message message = crosslane_nget_key(lnk, vc, tag);
	message.buffer = buffer;
	message.bytes = bytes;
	return crosslane_network_credit(crosslane_nget_card, &message);
}

// Waits until a get has ended: TX_f of the paper.
static inline int nget_wait(unsigned lnk, unsigned vc, unsigned tag) {
	crosslane_message message = crosslane_nget_key(lnk, vc, tag);
	return crosslane_network_wait(crosslane_nget_card, CROSSLANE_GET, &message, 0, NULL);
}

// The same, by its name in the paper's benchmark.
static inline int nget_notify_wait(unsigned lnk, unsigned vc, unsigned tag) {
	return nget_wait(lnk, vc, tag);
}

// Waits until a message has arrived: RX_f of the paper.
static inline int nget_credit_wait(unsigned lnk, unsigned vc, unsigned tag) {
	crosslane_message message = crosslane_nget_key(lnk, vc, tag);
	return crosslane_network_wait(crosslane_nget_card, CROSSLANE_CREDIT, &message, 0, NULL);
}

#endif
