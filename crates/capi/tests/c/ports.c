// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Programs of the papers, line by line: the DMA call of sbdt and the loop of nget. And messages in the
 * slots of a memory card. */
#include <crosslane/afu_shell_dma.h>
#include <crosslane/nget.h>

#include "check.h"

#define BYTES (3 << 20)

static void dma_call(void) {
	crosslane_session *session = NULL;
	crosslane_device *device = NULL;
	dma_handle_t dma = NULL;
	OK(crosslane_session_open("lab:sbdt:crosslane/pac", NULL, &session));
	OK(crosslane_device_open(session, 0, &device));
	OK(crosslane_dma_open(device, NULL, &dma));
	unsigned char *out = malloc(BYTES), *in = calloc(1, BYTES);
	CHECK(out != NULL && in != NULL);
	for (size_t byte = 0; byte < BYTES; byte++)
		out[byte] = (unsigned char)(byte ^ byte >> 8 ^ byte >> 16);
	void *card = (void *)(uintptr_t)8192;
	uint64_t before = 0, after = 0;
	OK(crosslane_session_now(session, &before));
	CHECK(afuShellDMATransfer(card, out, BYTES, HOST_TO_FPGA_MM, dma, dma) == FPGA_OK);
	OK(crosslane_session_now(session, &after));
	/* Gen3 x8: below 7.9 GB/s. */
	double rate = BYTES * 1e12 / (double)(after - before);
	CHECK(rate > 2e9 && rate < 7.9e9);
	CHECK(afuShellDMATransfer(in, card, BYTES, FPGA_TO_HOST_MM, dma, dma) == FPGA_OK);
	CHECK(memcmp(in, out, BYTES) == 0);
	memset(in, 0, BYTES);
	CHECK(afuShellDMATransfer(in, out, BYTES, HOST_TO_HOST_MM, dma, dma) == FPGA_OK);
	CHECK(memcmp(in, out, BYTES) == 0);
	CHECK(afuShellDMATransfer(in, in + 1, 64, HOST_TO_HOST_MM, dma, dma) == FPGA_INVALID_PARAM);
	CHECK(strstr(crosslane_last_error()->sentence, "overlap") != NULL);
	CHECK(afuShellDMATransfer(card, NULL, 64, HOST_TO_FPGA_MM, dma, dma) == FPGA_INVALID_PARAM);
	CHECK(afuShellDMATransfer(card, out, 0, HOST_TO_FPGA_MM, dma, dma) == FPGA_INVALID_PARAM);
	FAILS(crosslane_device_close(device), EBUSY, "open");
	OK(crosslane_dma_close(dma));
	OK(crosslane_device_close(device));
	OK(crosslane_session_close(session));
	free(in);
	free(out);
}

/* The benchmark of the paper: up to N gets in flight, M started and M waited for in each round. */
static void nget_loop(void) {
	enum { N = 8, M = 4, K = 5, L = 4096 };
	crosslane_session *session = NULL;
	crosslane_network *far = NULL;
	OK(crosslane_session_open("lab:nget/fpga1", NULL, &session));
	OK(nget_init(session, "fpga1"));
	/* The other node of the lab, in the same simulated time. */
	OK(crosslane_network_open(session, "fpga2", NULL, &far));
	OK(crosslane_network_enable_link(crosslane_nget_card, 0));
	/* The cable leads from link 0, the positive direction, to link 1 of the next node. */
	OK(crosslane_network_enable_link(far, 1));
	OK(crosslane_network_wait_link(crosslane_nget_card, 0, 0));

	crosslane_buffer *sent = NULL, *room = NULL;
	OK(nget_buffer(L, &sent));
	OK(crosslane_network_buffer_create(far, (uint64_t)(M * K + N) * L, &room));
	char *data = malloc(L), *seen = malloc(L);
	CHECK(data != NULL && seen != NULL);
	OK(crosslane_pattern(data, L, 1, 0));
	OK(crosslane_buffer_write(sent, 0, data, L));
	unsigned started = 0, waited = 0;
	uint64_t begun = 0, ended = 0;
	OK(crosslane_session_now(session, &begun));
	for (unsigned round = 0; round <= K; round++) {
		unsigned to_start = round < K ? M : 0, to_wait = round < K ? M : N - M;
		if (round == 0)
			to_start += N - M;
		for (unsigned i = 0; i < to_start; i++, started++) {
			crosslane_message place = {.size = sizeof place, .buffer = room, .bytes = L};
			place.wr_id = started;
			place.offset = (uint64_t)started * L;
			place.link = 1;
			place.tag = started % 64;
			OK(crosslane_network_credit(far, &place));
			OK(nget(0, 0, started % 64, sent, L));
		}
		for (unsigned i = 0; i < to_wait; i++, waited++)
			OK(nget_notify_wait(0, 0, waited % 64));
	}
	CHECK(started == waited && started == M * K + N - M);
	OK(crosslane_session_now(session, &ended));
	for (unsigned message = 0; message < started; message++) {
		crosslane_message place = {.size = sizeof place, .link = 1, .tag = message};
		crosslane_completion done = {.size = sizeof done};
		if (message % 2) {
			OK(crosslane_network_wait(far, CROSSLANE_CREDIT, &place, 0, &done));
		} else {
			int has_ended = 0;
			while ((has_ended = crosslane_network_poll(far, CROSSLANE_CREDIT, &place,
								   &done)) == 0) {
			}
			CHECK(has_ended == 1);
		}
		CHECK(done.wr_id == message && done.bytes == L && done.status == 0);
		OK(crosslane_buffer_read(room, (uint64_t)message * L, seen, L));
		CHECK(memcmp(seen, data, L) == 0);
	}
	/* Up to 2.2 GB/s on the link, with gets that overlap. */
	double rate = started * (double)L * 1e12 / (double)(ended - begun);
	CHECK(rate > 2e8 && rate < 3e9);
	FAILS(nget_wait(0, 0, 1), ENOENT, "in flight");
	FAILS(nget(99, 0, 1, sent, L), EINVAL, "link");
	OK(nget_credit(0, 0, 9, sent, L));
	FAILS(nget_credit(0, 0, 9, sent, L), EBUSY, "in flight");
	FAILS(crosslane_buffer_destroy(sent), EBUSY, "in flight");
	crosslane_message never = crosslane_nget_key(0, 0, 9);
	FAILS(crosslane_network_wait(crosslane_nget_card, CROSSLANE_CREDIT, &never, 1000, NULL),
	      ETIMEDOUT, "deadline");
	FAILS(crosslane_network_close(far), EBUSY, "open");
	OK(crosslane_buffer_destroy(room));
	OK(crosslane_buffer_destroy(sent));
	OK(crosslane_network_close(far));
	OK(nget_release());
	OK(crosslane_session_close(session));
	free(seen);
	free(data);
}

static void slots(void) {
	crosslane_session *session = NULL;
	crosslane_memory_card *card = NULL;
	crosslane_window *combined = NULL, *uncached = NULL;
	crosslane_slot_sender *sender = NULL;
	crosslane_slot_receiver *receiver = NULL;
	OK(crosslane_session_open("lab:aws-f1/f1", NULL, &session));
	crosslane_device *device = NULL;
	CHECK(crosslane_device_open(session, 0, &device) < 0);
	OK(crosslane_memory_card_open(session, "f1", &card));
	crosslane_window_attr attr = {.size = sizeof attr, .bar = 4, .bytes = 256};
	attr.contents = CROSSLANE_CONTENTS_MEMORY;
	OK(crosslane_window_open(session, "f1", &attr, &uncached));
	attr.mapping = CROSSLANE_WRITE_COMBINED;
	OK(crosslane_window_open(session, "f1", &attr, &combined));
	OK(crosslane_slot_sender_create(combined, &sender));
	OK(crosslane_slot_receiver_create(uncached, &receiver));
	char into[CROSSLANE_SLOT_MESSAGE_BYTES];
	size_t bytes = 7;
	CHECK(crosslane_slot_receive(receiver, into, sizeof into, &bytes) == 0 && bytes == 0);
	for (int message = 0; message < 7; message++) {
		OK(crosslane_slot_send(sender, "a message", 9, 0));
		OK(crosslane_slot_flush(sender));
		CHECK(crosslane_slot_receive(receiver, into, sizeof into, &bytes) == 1);
		CHECK(bytes == 9 && memcmp(into, "a message", 9) == 0);
	}
	for (int message = 0; message < 3; message++)
		OK(crosslane_slot_send(sender, "full", 4, 1000));
	FAILS(crosslane_slot_send(sender, "full", 4, 1000), ETIMEDOUT, "no slot was free");
	FAILS(crosslane_slot_send(sender, into, 48, 0), EINVAL, "48 B");
	FAILS(crosslane_slot_receive(receiver, into, 46, &bytes), EINVAL, "46 B");
	FAILS(crosslane_window_close(combined), EBUSY, "open");
	OK(crosslane_slot_receiver_destroy(receiver));
	OK(crosslane_slot_sender_destroy(sender));
	OK(crosslane_window_close(combined));
	OK(crosslane_window_close(uncached));
	/* What is pushed into the FIFO is taken out of it, as much as there is room for. */
	crosslane_window_attr fifo = {.size = sizeof fifo, .bar = 2, .bytes = 256, .decoded_bytes = 256};
	fifo.contents = CROSSLANE_CONTENTS_FIFO;
	OK(crosslane_window_open(session, "f1", &fifo, &uncached));
	OK(crosslane_window_push(uncached, "in their order..", 16));
	OK(crosslane_window_close(uncached));
	CHECK(crosslane_memory_card_drain(card, into, 6) == 6 && memcmp(into, "in the", 6) == 0);
	CHECK(crosslane_memory_card_drain(card, into, sizeof into) == 10);
	CHECK(memcmp(into, "ir order..", 10) == 0);
	CHECK(crosslane_memory_card_drain(card, into, sizeof into) == 0);
	CHECK(crosslane_memory_card_drain(card, NULL, 0) == 0);
	FAILS(crosslane_memory_card_drain(card, NULL, 1), EINVAL, "NULL");
	OK(crosslane_memory_card_close(card));
	FAILS(crosslane_memory_card_drain(card, into, 1), EBADF, "closed before");
	OK(crosslane_session_close(session));
}

int main(void) {
	dma_call();
	nget_loop();
	slots();
	puts("passed");
	return 0;
}
