// SPDX-License-Identifier: Apache-2.0 OR MIT
/* A client of a bridge: its memory goes to a card behind the server, and comes back. */
#include <crosslane/afu_shell_dma.h>

#include "check.h"

#define BYTES 100000

int main(int count, char **arguments) {
	CHECK(count == 3);
	crosslane_bridge *bridge = NULL;
	crosslane_bridge_attr attr = {.size = sizeof attr, .network = "carrier pigeons"};
	FAILS(crosslane_bridge_connect(arguments[1], &attr, &bridge), ENOENT, "carrier pigeons");
	attr.network = "tcp";
	attr.key = "not a key";
	FAILS(crosslane_bridge_connect(arguments[1], &attr, &bridge), EINVAL, "key");
	attr.key = NULL;
	OK(crosslane_bridge_connect(arguments[1], &attr, &bridge));

	crosslane_bridge_memory *from = NULL, *to = NULL;
	OK(crosslane_bridge_memory_create(bridge, BYTES, &from));
	OK(crosslane_bridge_memory_create(bridge, BYTES, &to));
	unsigned char *out = malloc(BYTES), *in = calloc(1, BYTES);
	CHECK(out != NULL && in != NULL);
	OK(crosslane_pattern(out, BYTES, 77, 0));
	OK(crosslane_bridge_memory_write(from, 0, out, BYTES));

	crosslane_bridge_job job = {.size = sizeof job, .card = "card", .from = from};
	job.flags = CROSSLANE_BRIDGE_CHECKSUM;
	job.card_address = 4096;
	job.bytes = BYTES;
	crosslane_completion done = {.size = sizeof done};
	OK(crosslane_bridge_transfer(bridge, &job, &done));
	CHECK(done.bytes == BYTES && done.posted_ps < done.completed_ps);
	job.kind = CROSSLANE_DMA_FROM_CARD;
	FAILS(crosslane_bridge_transfer(bridge, &job, NULL), EINVAL, "the bridge_memory is NULL");
	job.to = to;
	job.to_offset = 1;
	FAILS(crosslane_bridge_transfer(bridge, &job, NULL), EINVAL, "not in its");
	job.to_offset = 0;
	OK(crosslane_bridge_transfer(bridge, &job, NULL));
	OK(crosslane_bridge_memory_read(to, 0, in, BYTES));
	CHECK(memcmp(in, out, BYTES) == 0);
	/* The remote call of the sbdt paper. */
	crosslane_remote_card remote = {bridge, "card"};
	OK(crosslane_pattern(out, BYTES, 78, 0));
	memset(in, 0, BYTES);
	uint64_t near = (uintptr_t)out, back = (uintptr_t)in;
	CHECK(remoteAfuShellDMATransfer(near, 8192, BYTES, HOST_TO_FPGA_MM, &remote, &remote) == FPGA_OK);
	CHECK(remoteAfuShellDMATransfer(8192, back, BYTES, FPGA_TO_HOST_MM, &remote, &remote) == FPGA_OK);
	CHECK(memcmp(in, out, BYTES) == 0);
	memset(in, 0, BYTES);
	CHECK(remoteAfuShellDMATransfer(near, back, BYTES, HOST_TO_HOST_MM, &remote, &remote) == FPGA_OK);
	CHECK(memcmp(in, out, BYTES) == 0);
	CHECK(remoteAfuShellDMATransfer(near, back, 0, HOST_TO_HOST_MM, &remote, &remote) ==
	      FPGA_INVALID_PARAM);
	/* From the card of this server into one of another server. */
	crosslane_bridge *other = NULL;
	crosslane_bridge_memory *far = NULL;
	OK(crosslane_bridge_connect(arguments[2], &attr, &other));
	OK(crosslane_bridge_memory_create(other, BYTES, &far));
	job.kind = CROSSLANE_BRIDGE_TO_PEER;
	job.card_address = 8192;
	FAILS(crosslane_bridge_transfer(bridge, &job, &done), EINVAL, "peer's server or card is NULL");
	job.peer_server = arguments[2];
	job.peer_card = "card";
	job.peer_address = 65536;
	OK(crosslane_bridge_transfer(bridge, &job, &done));
	CHECK(done.bytes == BYTES);
	crosslane_bridge_job back_from_peer = {.size = sizeof job, .card = "card", .to = far};
	back_from_peer.card_address = 65536;
	back_from_peer.bytes = BYTES;
	back_from_peer.kind = CROSSLANE_DMA_FROM_CARD;
	OK(crosslane_bridge_transfer(other, &back_from_peer, NULL));
	memset(in, 0, BYTES);
	OK(crosslane_bridge_memory_read(far, 0, in, BYTES));
	CHECK(memcmp(in, out, BYTES) == 0);
	OK(crosslane_bridge_memory_destroy(far));
	OK(crosslane_bridge_close(other));
	job.card = "no such card";
	CHECK(crosslane_bridge_transfer(bridge, &job, NULL) < 0);
	CHECK(strstr(crosslane_last_error()->sentence, "no such card") != NULL);
	FAILS(crosslane_bridge_close(bridge), EBUSY, "something that stands on it is open");
	OK(crosslane_bridge_memory_destroy(to));
	OK(crosslane_bridge_memory_destroy(from));
	OK(crosslane_bridge_close(bridge));
	free(in);
	free(out);
	puts("passed");
	return 0;
}
