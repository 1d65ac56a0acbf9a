// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Whatever a program passes, it gets an error with a sentence. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static crosslane_session *session;
static crosslane_device *device;
static crosslane_buffer *buffer;
static crosslane_channel *channel;

static void nulls_and_names(void) {
	crosslane_session *other = NULL;
	FAILS(crosslane_session_open(NULL, NULL, &other), EINVAL, "NULL");
	FAILS(crosslane_session_open("lab:minimal", NULL, NULL), EINVAL, "NULL");
	FAILS(crosslane_session_open_all(NULL, 3, NULL, &other), EINVAL, "no names");
	FAILS(crosslane_session_open("fpga1", NULL, &other), EINVAL, "fpga1");
	FAILS(crosslane_session_open("lab:rosta:crosslane/fpga99", NULL, &other), ENOENT, "fpga99");
	FAILS(crosslane_session_open("lab:\xff", NULL, &other), EINVAL, "UTF-8");
	FAILS(crosslane_session_open("vfio-user:/nonexistent/socket", NULL, &other), ENOENT,
	      "/nonexistent/socket");
	CHECK(other == NULL);
	FAILS(crosslane_session_close(NULL), EINVAL, "the session is NULL");
	FAILS(crosslane_device_open(session, 0, NULL), EINVAL, "NULL");
	FAILS(crosslane_session_now(session, NULL), EINVAL, "NULL");
	FAILS(crosslane_buffer_write(buffer, 0, NULL, 4), EINVAL, "NULL");
	FAILS(crosslane_buffer_read(buffer, 0, NULL, 4), EINVAL, "NULL");
	OK(crosslane_buffer_read(buffer, 0, NULL, 0));
	FAILS(crosslane_buffer_register(device, NULL, 64, NULL, &buffer), EINVAL, "NULL");
	FAILS(crosslane_channel_transfer(channel, NULL, NULL), EINVAL, "NULL");
	FAILS(crosslane_channel_post(channel, NULL, 1), EINVAL, "NULL");
	FAILS(crosslane_channel_poll(channel, NULL, 1), EINVAL, "NULL");
	OK(crosslane_channel_post(channel, NULL, 0));
}

static void handles(void) {
	/* Of another kind. */
	crosslane_session *not_one = (crosslane_session *)(void *)device;
	uint64_t now = 0;
	FAILS(crosslane_session_now(not_one, &now), EBADF, "this is a device, not a session");
	/* No handle at all. */
	int local = 0;
	FAILS(crosslane_session_now((crosslane_session *)(void *)&local, &now), EBADF, "not the handle");
	FAILS(crosslane_session_now((crosslane_session *)UINTPTR_MAX, &now), EBADF, "not the handle");
	/* Closed before, with the entry in use again. */
	crosslane_buffer *stale = NULL, *young = NULL;
	OK(crosslane_buffer_create(device, 4096, NULL, &stale));
	OK(crosslane_buffer_destroy(stale));
	FAILS(crosslane_buffer_destroy(stale), EBADF, "closed before");
	OK(crosslane_buffer_create(device, 4096, NULL, &young));
	FAILS(crosslane_buffer_destroy(stale), EBADF, "closed before");
	OK(crosslane_buffer_destroy(young));
	/* What others stand on. */
	FAILS(crosslane_device_close(device), EBUSY, "something that stands on it is open");
	FAILS(crosslane_session_close(session), EBUSY, "something that stands on it is open");
	crosslane_device *again = NULL;
	FAILS(crosslane_device_open(session, 0, &again), EBUSY, "open already");
	FAILS(crosslane_device_open(session, 7, &again), ENOENT, "there is no card 7");
}

static void structures(void) {
	crosslane_session *other = NULL;
	crosslane_session_attr attr;
	memset(&attr, 0, sizeof attr);
	FAILS(crosslane_session_open("lab:minimal", &attr, &other), EINVAL, "size");
	attr.size = sizeof attr - 1;
	FAILS(crosslane_session_open("lab:minimal", &attr, &other), EINVAL, "size");
	attr.size = 1 << 20;
	FAILS(crosslane_session_open("lab:minimal", &attr, &other), EINVAL, "size");
	attr.size = sizeof attr;
	attr.engine = 9;
	FAILS(crosslane_session_open("lab:minimal", &attr, &other), EINVAL, "engines 9");
	/* Of a later version: accepted as long as what is not known here is 0. */
	struct {
		crosslane_buffer_attr known;
		uint64_t later;
	} longer = {.known = {.size = sizeof longer}};
	crosslane_buffer *made = NULL;
	OK(crosslane_buffer_create(device, 4096, &longer.known, &made));
	OK(crosslane_buffer_destroy(made));
	longer.later = 1;
	FAILS(crosslane_buffer_create(device, 4096, &longer.known, &made), E2BIG, "does not know");
	crosslane_description description = {.size = 3};
	FAILS(crosslane_device_describe(device, &description), EINVAL, "size");
	FAILS(crosslane_buffer_create(device, 0, NULL, &made), EINVAL, "0 B");
	int code = crosslane_buffer_create(device, UINT64_MAX, NULL, &made);
	CHECK(code < 0 && code != -ENOTRECOVERABLE);
	code = crosslane_buffer_create(device, UINT64_MAX / 2, NULL, &made);
	CHECK(code < 0 && code != -ENOTRECOVERABLE);
	/* One wrong transfer of a batch: none is posted. */
	crosslane_transfer batch[2];
	memset(batch, 0, sizeof batch);
	batch[0].size = batch[1].size = sizeof batch[0];
	batch[0].buffer = batch[1].buffer = buffer;
	batch[0].bytes = 64;
	batch[1].bytes = 64;
	batch[1].size = sizeof batch[0] + 8;
	FAILS(crosslane_channel_post(channel, batch, 2), EINVAL, "number 1 has");
	batch[1].size = sizeof batch[0];
	batch[1].level = 77;
	FAILS(crosslane_channel_post(channel, batch, 2), EINVAL, "transfer 1 of 2: there is no level");
	batch[1].level = CROSSLANE_LEVEL_ACKNOWLEDGED;
	FAILS(crosslane_channel_post(channel, batch, 2), EOPNOTSUPP, "cannot be promised");
	batch[1].level = 0;
	batch[1].offset = 4090;
	FAILS(crosslane_channel_post(channel, batch, 2), EINVAL, "not in its");
	batch[1].offset = 0;
	FAILS(crosslane_channel_post(channel, batch, 2), EBUSY, "in flight");
	batch[1].buffer = NULL;
	FAILS(crosslane_channel_post(channel, batch, 2), EINVAL, "no buffer");
	crosslane_channel_counters counters = {.size = sizeof counters};
	OK(crosslane_channel_count(channel, &counters));
	CHECK(counters.posted == 0);
	void *place = NULL;
	FAILS(crosslane_buffer_address(buffer, &place), EOPNOTSUPP, "simulated");
	int fd = -1;
	FAILS(crosslane_channel_fd(channel, &fd), EOPNOTSUPP, "crosslane_channel_wait");
	CHECK(fd == -1);
}

static void *in_another_thread(void *unused) {
	(void)unused;
	CHECK(crosslane_last_error()->code == 0);
	uint64_t now = 0;
	FAILS(crosslane_session_now(session, &now), EPERM, "another thread");
	FAILS(crosslane_session_close(session), EPERM, "another thread");
	/* A session of its own works, and is closed with the thread if it is left open. */
	crosslane_session *own = NULL;
	OK(crosslane_session_open("lab:kc705:crosslane", NULL, &own));
	OK(crosslane_session_now(own, &now));
	FAILS(crosslane_session_now(session, &now), EPERM, "another thread");
	return NULL;
}

static void threads(void) {
	pthread_t thread;
	FAILS(crosslane_session_close(NULL), EINVAL, "NULL");
	CHECK(pthread_create(&thread, NULL, in_another_thread, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	/* Each thread has its own last error. */
	CHECK(crosslane_last_error()->code == -EINVAL);
}

static void fork_between(void) {
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		uint64_t now = 0;
		FAILS(crosslane_session_now(session, &now), EPERM, "before a fork");
		FAILS(crosslane_buffer_destroy(buffer), EPERM, "before a fork");
		crosslane_session *own = NULL;
		OK(crosslane_session_open("lab:kc705:crosslane", NULL, &own));
		OK(crosslane_session_now(own, &now));
		OK(crosslane_session_close(own));
		exit(0);
	}
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	uint64_t now = 0;
	OK(crosslane_session_now(session, &now));
}

int main(void) {
	OK(crosslane_session_open("lab:rosta:crosslane/fpga1", NULL, &session));
	OK(crosslane_device_open(session, 0, &device));
	OK(crosslane_buffer_create(device, 4096, NULL, &buffer));
	OK(crosslane_channel_open(device, CROSSLANE_C2H, 0, NULL, &channel));
	nulls_and_names();
	handles();
	structures();
	threads();
	fork_between();
	/* The rest is left open: the library gives it back with the thread. */
	puts("passed");
	return 0;
}
