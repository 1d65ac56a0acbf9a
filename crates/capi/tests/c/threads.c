// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Threads: one card in a session that they share, and sessions of their own. Also run by
 * ThreadSanitizer (make tsan). The card is the named one, or a lab's. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define LAB "lab:kc705:crosslane"
#define THREADS 4
#define ROUNDS 12
#define BYTES 4096
#define PARTS 8

static pthread_barrier_t barrier;
static crosslane_session *session;
static crosslane_device *device;
static crosslane_channel *to_card, *from_card;
static atomic_int ended, ended_of[THREADS];

/* What a thread leaves for others. */
static crosslane_session *own[THREADS];
static crosslane_buffer *left[THREADS];

static crosslane_transfer transfer_of(crosslane_buffer *buffer, size_t number) {
	crosslane_transfer made = {.size = sizeof made, .wr_id = number, .buffer = buffer};
	made.bytes = BYTES;
	made.card_address = number * BYTES;
	made.timeout_ns = 60000000000;
	return made;
}

/* Data go to the card's memory and back, by channels that all threads use. */
static void there_and_back(size_t number) {
	crosslane_buffer *out = NULL, *in = NULL;
	unsigned char data[BYTES], back[BYTES];
	OK(crosslane_buffer_create(device, BYTES, NULL, &out));
	OK(crosslane_buffer_create(device, BYTES, NULL, &in));
	for (size_t round = 0; round < ROUNDS; round++) {
		OK(crosslane_pattern(data, BYTES, (uint32_t)(100 * number + round), 0));
		OK(crosslane_buffer_write(out, 0, data, BYTES));
		crosslane_transfer transfer = transfer_of(out, number);
		crosslane_completion done = {.size = sizeof done};
		OK(crosslane_channel_transfer(to_card, &transfer, &done));
		CHECK(done.wr_id == number && done.bytes == BYTES);
		transfer.buffer = in;
		OK(crosslane_channel_transfer(from_card, &transfer, &done));
		OK(crosslane_buffer_read(in, 0, back, BYTES));
		CHECK(memcmp(data, back, BYTES) == 0);
	}
	OK(crosslane_buffer_destroy(in));
	left[number] = out;
}

/* Any thread may take the completion of any. */
static void posted_by_all(size_t number) {
	crosslane_transfer parts[PARTS];
	for (size_t part = 0; part < PARTS; part++) {
		parts[part] = transfer_of(left[number], number);
		parts[part].bytes = BYTES / PARTS;
		parts[part].offset = part * BYTES / PARTS;
	}
	pthread_barrier_wait(&barrier);
	OK(crosslane_channel_post(to_card, parts, PARTS));
	while (atomic_load(&ended) < THREADS * PARTS) {
		crosslane_completion done = {.size = sizeof done};
		int count = crosslane_channel_wait(to_card, &done, 1, 10000000);
		CHECK(count == 0 || (count == 1 && done.status == 0 && done.wr_id < THREADS));
		if (count == 1) {
			atomic_fetch_add(&ended_of[done.wr_id], 1);
			atomic_fetch_add(&ended, 1);
		}
	}
}

/* A session that is not shared is its thread's alone. */
static void session_of_its_own(size_t number) {
	crosslane_device *card = NULL;
	crosslane_buffer *buffer = NULL;
	crosslane_channel *channel = NULL;
	uint64_t now_ps = 0;
	OK(crosslane_session_open(LAB, NULL, &own[number]));
	OK(crosslane_device_open(own[number], 0, &card));
	OK(crosslane_buffer_create(card, BYTES, NULL, &buffer));
	OK(crosslane_channel_open(card, CROSSLANE_C2H, 0, NULL, &channel));
	crosslane_transfer transfer = transfer_of(buffer, 0);
	OK(crosslane_device_route(card, CROSSLANE_SOURCE_GENERATOR, CROSSLANE_SOURCE_GENERATOR));
	OK(crosslane_channel_transfer(channel, &transfer, NULL));
	transfer.buffer = left[number];
	FAILS(crosslane_channel_post(channel, &transfer, 1), EINVAL, "another session");
	pthread_barrier_wait(&barrier);
	FAILS(crosslane_session_now(own[(number + 1) % THREADS], &now_ps), EPERM, "another thread");
	OK(crosslane_session_now(session, &now_ps));
	pthread_barrier_wait(&barrier);
	OK(crosslane_channel_close(channel));
	OK(crosslane_buffer_destroy(buffer));
	OK(crosslane_device_close(card));
	OK(crosslane_session_close(own[number]));
}

static void *work(void *number) {
	there_and_back((uintptr_t)number);
	posted_by_all((uintptr_t)number);
	session_of_its_own((uintptr_t)number);
	return NULL;
}

/* Waits for data that only come when another thread sends them. */
static void *receive(void *buffer) {
	crosslane_transfer transfer = transfer_of(buffer, 0);
	transfer.card_address = 0;
	crosslane_completion done = {.size = sizeof done};
	OK(crosslane_channel_post(from_card, &transfer, 1));
	CHECK(crosslane_channel_wait(from_card, &done, 1, CROSSLANE_FOREVER) == 1);
	CHECK(done.status == 0 && done.bytes == BYTES);
	return NULL;
}

/* A wait for a real or served card keeps nobody from it. */
static void waits_take_turns(void) {
	pthread_t receiver;
	OK(crosslane_device_route(device, CROSSLANE_SOURCE_H2C, CROSSLANE_SOURCE_GENERATOR));
	OK(crosslane_channel_open(device, CROSSLANE_H2C, 0, NULL, &to_card));
	OK(crosslane_channel_open(device, CROSSLANE_C2H, 0, NULL, &from_card));
	OK(pthread_create(&receiver, NULL, receive, left[1]));
	OK(crosslane_session_sleep(session, 20000000));
	crosslane_transfer transfer = transfer_of(left[0], 0);
	transfer.card_address = 0;
	OK(crosslane_channel_transfer(to_card, &transfer, NULL));
	OK(pthread_join(receiver, NULL));
	OK(crosslane_channel_close(to_card));
	OK(crosslane_channel_close(from_card));
}

static void child_has_nothing_of_its_parent(void) {
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		uint64_t now_ps = 0;
		crosslane_session_attr attr = {.size = sizeof attr, .flags = CROSSLANE_SESSION_SHARED};
		crosslane_session *fresh = NULL;
		FAILS(crosslane_session_now(session, &now_ps), EPERM, "before a fork");
		OK(crosslane_session_open(LAB, &attr, &fresh));
		OK(crosslane_session_now(fresh, &now_ps));
		OK(crosslane_session_close(fresh));
		_exit(0);
	}
	int status = 1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void *use_stale(void *stale) {
	uint64_t now_ps = 0;
	FAILS(crosslane_session_now(stale, &now_ps), EBADF, "was closed before");
	return NULL;
}

int main(int count, char **arguments) {
	const char *name = count > 1 ? arguments[1] : LAB;
	pthread_t threads[THREADS];
	crosslane_session_attr attr = {.size = sizeof attr, .flags = 2};
	FAILS(crosslane_session_open(name, &attr, &session), EINVAL, "no such session flags 0x2");
	attr.flags = CROSSLANE_SESSION_SHARED;
	OK(crosslane_session_open(name, &attr, &session));
	OK(crosslane_device_open(session, 0, &device));
	crosslane_channel_attr memory = {.size = sizeof memory, .flags = CROSSLANE_CHANNEL_CARD_MEMORY};
	OK(crosslane_channel_open(device, CROSSLANE_H2C, 0, &memory, &to_card));
	OK(crosslane_channel_open(device, CROSSLANE_C2H, 0, &memory, &from_card));
	OK(pthread_barrier_init(&barrier, NULL, THREADS));
	for (uintptr_t number = 0; number < THREADS; number++)
		OK(pthread_create(&threads[number], NULL, work, (void *)number));
	FAILS(crosslane_session_close(session), EBUSY, "something that stands on it is open");
	for (size_t number = 0; number < THREADS; number++)
		OK(pthread_join(threads[number], NULL));
	for (size_t number = 0; number < THREADS; number++)
		CHECK(ended_of[number] == PARTS);
	/* What a thread has left open is there for the others. */
	OK(crosslane_channel_close(to_card));
	OK(crosslane_channel_close(from_card));
	if (crosslane_session_is_simulated(session) == 0)
		waits_take_turns();
	child_has_nothing_of_its_parent();
	for (size_t number = 0; number < THREADS; number++)
		OK(crosslane_buffer_destroy(left[number]));
	OK(crosslane_device_close(device));
	OK(crosslane_session_close(session));
	OK(pthread_create(&threads[0], NULL, use_stale, session));
	OK(pthread_join(threads[0], NULL));
	puts("passed");
	return 0;
}
