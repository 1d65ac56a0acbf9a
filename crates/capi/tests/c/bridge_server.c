// SPDX-License-Identifier: Apache-2.0 OR MIT
/* What a bridge's client hears of its server: progress of a transfer, its end when it is cancelled,
 * what is left of it; the server's cards, and one that is reloaded: `bridge_server SERVER`. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

#define BYTES (8u << 20)

static const char *server;

static crosslane_bridge *connected(void) {
	crosslane_bridge *bridge = NULL;
	crosslane_bridge_attr attr = {.size = sizeof attr, .network = "tcp"};
	OK(crosslane_bridge_connect(server, &attr, &bridge));
	return bridge;
}

static void *in_another_thread(void *bridge) {
	uint64_t bytes = 0;
	FAILS(crosslane_bridge_progress(bridge, &bytes), EPERM, "another thread");
	FAILS(crosslane_bridge_cancel(bridge), EPERM, "another thread");
	return NULL;
}

/* Ends the transfer that was posted, and returns what has arrived: all, if it was over already. */
static uint64_t cancelled(crosslane_bridge *bridge) {
	uint64_t bytes = 0;
	crosslane_completion done = {.size = sizeof done};
	OK(crosslane_bridge_cancel(bridge));
	OK(crosslane_bridge_cancel(bridge));
	CHECK(crosslane_bridge_wait(bridge, &done, CROSSLANE_FOREVER) == 1);
	if (done.status == 0)
		return done.bytes;
	CHECK(done.status == -ECANCELED && done.kind == CROSSLANE_KIND_CANCELLED);
	CHECK(done.bytes < BYTES && done.total_bytes == BYTES);
	CHECK(crosslane_last_error()->moved_bytes == done.bytes);
	CHECK(strstr(crosslane_last_error()->sentence, "it was cancelled") != NULL);
	CHECK(crosslane_bridge_progress(bridge, &bytes) == 0 && bytes == 0);
	CHECK(crosslane_bridge_wait(bridge, &done, 0) == 0);
	OK(crosslane_bridge_cancel(bridge));
	return done.bytes;
}

static void transfers_are_watched_and_resumed(void) {
	unsigned char *out = malloc(BYTES), *in = calloc(1, BYTES);
	CHECK(out != NULL && in != NULL);
	OK(crosslane_pattern(out, BYTES, 77, 0));
	crosslane_bridge *bridge = connected();
	crosslane_bridge_memory *memory = NULL;
	OK(crosslane_bridge_memory_create(bridge, BYTES, &memory));
	OK(crosslane_bridge_memory_write(memory, 0, out, BYTES));
	crosslane_bridge_job job = {.size = sizeof job, .card = "card", .from = memory, .bytes = BYTES};
	job.flags = CROSSLANE_BRIDGE_CHECKSUM;

	/* Watched to its end. */
	uint64_t bytes = 1;
	CHECK(crosslane_bridge_progress(bridge, &bytes) == 0 && bytes == 0);
	OK(crosslane_bridge_post(bridge, &job));
	FAILS(crosslane_bridge_post(bridge, &job), EBUSY, "crosslane_bridge_wait");
	FAILS(crosslane_bridge_transfer(bridge, &job, NULL), EBUSY, "crosslane_bridge_wait");
	FAILS(crosslane_bridge_survey(bridge, NULL, 0, NULL), EBUSY, "crosslane_bridge_wait");
	FAILS(crosslane_bridge_memory_destroy(memory), EBUSY, "a transfer that was posted");
	FAILS(crosslane_bridge_progress(bridge, NULL), EINVAL, "NULL");
	crosslane_completion done = {.size = 1};
	FAILS(crosslane_bridge_wait(bridge, &done, 0), EINVAL, "size");
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, in_another_thread, bridge) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	done.size = sizeof done;
	uint64_t last = 0;
	int ended = 0;
	while (ended == 0) {
		CHECK(crosslane_bridge_progress(bridge, &bytes) >= 0);
		CHECK(last <= bytes && bytes <= BYTES);
		last = bytes;
		ended = crosslane_bridge_wait(bridge, &done, 1000000);
	}
	CHECK(ended == 1 && done.status == 0 && done.bytes == BYTES);
	CHECK(done.posted_ps < done.completed_ps);

	/* Stopped in the middle, and made again from there on, by another connection. A machine with
	 * much to do may have this program wait until all is over: then once more. */
	uint64_t arrived = BYTES;
	job.card_address = BYTES;
	for (int tries = 0; arrived == BYTES && tries < 10; tries++) {
		OK(crosslane_bridge_post(bridge, &job));
		int moves = 1;
		for (bytes = 0; moves == 1 && bytes == 0;)
			moves = crosslane_bridge_progress(bridge, &bytes);
		CHECK(moves >= 0);
		arrived = cancelled(bridge);
	}
	CHECK(arrived > 0 && arrived < BYTES);
	CHECK(crosslane_bridge_transfer(bridge, &job, NULL) < 0);
	OK(crosslane_bridge_memory_destroy(memory));
	OK(crosslane_bridge_close(bridge));
	bridge = connected();
	OK(crosslane_bridge_memory_create(bridge, BYTES, &memory));
	OK(crosslane_bridge_memory_write(memory, 0, out, BYTES));
	job.from = memory;
	job.first = BYTES;
	FAILS(crosslane_bridge_transfer(bridge, &job, NULL), EINVAL, "cannot go on from byte");
	job.first = arrived;
	OK(crosslane_bridge_transfer(bridge, &job, &done));
	CHECK(done.bytes == BYTES - arrived && done.total_bytes == BYTES);

	/* Back one stage after the other. */
	job.first = 0;
	job.kind = CROSSLANE_DMA_FROM_CARD;
	job.to = memory;
	job.flags |= CROSSLANE_BRIDGE_NAIVE;
	OK(crosslane_bridge_memory_write(memory, 0, in, BYTES));
	OK(crosslane_bridge_post(bridge, &job));
	CHECK(crosslane_bridge_wait(bridge, NULL, CROSSLANE_FOREVER) == 1);
	OK(crosslane_bridge_memory_read(memory, 0, in, BYTES));
	CHECK(memcmp(in, out, BYTES) == 0);
	job.first = 1;
	FAILS(crosslane_bridge_post(bridge, &job), EINVAL, "naive transfer moves all data");
	job.first = 0;
	job.flags = 4;
	FAILS(crosslane_bridge_post(bridge, &job), EINVAL, "no such bridge flags 0x4");
	FAILS(crosslane_bridge_post(bridge, NULL), EINVAL, "NULL");

	/* What is left open in flight goes with its connection. */
	job.flags = 0;
	OK(crosslane_bridge_post(bridge, &job));
	FAILS(crosslane_bridge_close(bridge), EBUSY, "something that stands on it");
	CHECK(crosslane_bridge_wait(bridge, &done, CROSSLANE_FOREVER) == 1 && done.status == 0);
	OK(crosslane_bridge_memory_destroy(memory));
	FAILS(crosslane_bridge_post(bridge, &job), EBADF, "closed before");
	job.kind = CROSSLANE_BRIDGE_TO_PEER;
	job.peer_server = server;
	job.peer_card = "card";
	job.peer_address = BYTES;
	OK(crosslane_bridge_post(bridge, &job));
	OK(crosslane_bridge_close(bridge));
	FAILS(crosslane_bridge_wait(bridge, &done, 0), EBADF, "closed before");
	free(in);
	free(out);
}

static void cards_are_described_and_reloaded(void) {
	crosslane_bridge *bridge = connected();
	crosslane_bridge_survey_info info = {.size = sizeof info};
	crosslane_bridge_card cards[4] = {{.size = sizeof *cards}};
	/* The server gives up what its last client left in flight when it sees that it is gone. */
	for (int tries = 0; tries == 0 || (cards[0].transfers > 0 && tries < 6000); tries++) {
		if (tries > 0)
			usleep(10000);
		CHECK(crosslane_bridge_survey(bridge, cards, 4, &info) == 1);
	}
	CHECK(info.cards == 1 && info.free_memory_bytes <= info.memory_bytes);
	CHECK(strcmp(cards[0].name, "card") == 0 && cards[0].outage == NULL);
	CHECK(cards[0].kind == CROSSLANE_CARD_ENGINE && cards[0].transfers == 0);
	CHECK(cards[0].moved_bytes >= BYTES && cards[0].slots > 0);
	CHECK(cards[0].free_slots_to_card <= cards[0].slots);
	CHECK(crosslane_bridge_survey(bridge, NULL, 0, &info) == 0 && info.cards == 1);
	OK(crosslane_bridge_survey(bridge, NULL, 0, NULL));
	FAILS(crosslane_bridge_survey(bridge, NULL, 4, NULL), EINVAL, "NULL");
	FAILS(crosslane_bridge_survey(NULL, NULL, 0, NULL), EINVAL, "the bridge is NULL");

	crosslane_bridge_image image = {.size = sizeof image, .card = "card", .image = "01234"};
	image.bytes = 5;
	crosslane_bridge_reloaded done = {.size = sizeof done};
	image.ending = "bit";
	OK(crosslane_bridge_reload(bridge, &image, &done));
	CHECK(done.bytes == 5 && done.elapsed_ps > 0 && strcmp(done.said, "5 bytes\n.bit") == 0);
	const unsigned char sum[4] = {0xc5, 0x65, 0xfe, 0x03};
	CHECK(memcmp(done.sha256, sum, sizeof sum) == 0);
	OK(crosslane_bridge_reload(bridge, &image, NULL));
	image.ending = "../sh";
	FAILS(crosslane_bridge_reload(bridge, &image, &done), EINVAL, "ending");
	image.ending = NULL;
	image.bytes = 0;
	FAILS(crosslane_bridge_reload(bridge, &image, &done), EINVAL, "an image of 0 B");
	image.bytes = 5;
	image.image = NULL;
	FAILS(crosslane_bridge_reload(bridge, &image, &done), EINVAL, "the image is NULL");
	image.image = "01234";
	image.card = "other";
	CHECK(crosslane_bridge_reload(bridge, &image, &done) < 0);
	CHECK(strstr(crosslane_last_error()->sentence, "other") != NULL);
	FAILS(crosslane_bridge_reload(bridge, NULL, &done), EINVAL, "NULL");
	OK(crosslane_bridge_close(bridge));
	FAILS(crosslane_bridge_reload(bridge, &image, &done), EBADF, "closed before");
}

int main(int count, char **arguments) {
	CHECK(count == 2);
	server = arguments[1];
	transfers_are_watched_and_resumed();
	cards_are_described_and_reloaded();
	puts("passed");
	return 0;
}
