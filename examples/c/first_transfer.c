// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Moves 1 MiB from a card to host memory, and prints at which rate:
 *
 *   cc first_transfer.c $(pkg-config --cflags --libs crosslane) -o first_transfer
 *   ./first_transfer vfio:03:00.0
 *
 * Without an argument the card is one of a lab, and the rate is that of simulated time. */
#include <crosslane.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (1 << 20)

/* Ends the program with the library's sentence if a call has failed. */
static void check(int code) {
	if (code < 0) {
		const crosslane_error *error = crosslane_last_error();
		fprintf(stderr, "first_transfer: %s\n(%s)\n", error->sentence, error->detail);
		exit(1);
	}
}

int main(int count, char **arguments) {
	const char *name = count > 1 ? arguments[1] : "lab:rosta:crosslane/fpga1";
	crosslane_session *session;
	crosslane_device *device;
	check(crosslane_session_open(name, NULL, &session));
	check(crosslane_device_open(session, 0, &device));

	/* The user circuit generates words; channel C2H 0 writes them to host memory. */
	check(crosslane_device_route(device, CROSSLANE_SOURCE_GENERATOR, CROSSLANE_SOURCE_GENERATOR));
	check(crosslane_device_seed(device, 7));
	crosslane_buffer *buffer;
	crosslane_channel *channel;
	check(crosslane_buffer_create(device, BYTES, NULL, &buffer));
	check(crosslane_channel_open(device, CROSSLANE_C2H, 0, NULL, &channel));

	crosslane_transfer transfer = {.size = sizeof transfer, .buffer = buffer, .bytes = BYTES};
	crosslane_completion done = {.size = sizeof done};
	check(crosslane_channel_transfer(channel, &transfer, &done));

	char *seen = malloc(BYTES), *wanted = malloc(BYTES);
	if (seen == NULL || wanted == NULL)
		return 1;
	check(crosslane_buffer_read(buffer, 0, seen, BYTES));
	check(crosslane_pattern(wanted, BYTES, 7, 0));
	int differs = memcmp(seen, wanted, BYTES);
	free(seen);
	free(wanted);

	double time_us = (double)(done.completed_ps - done.posted_ps) / 1e6;
	printf("%llu B in %.1f us: %.1f MB/s%s\n", (unsigned long long)done.bytes, time_us,
	       (double)done.bytes / time_us,
	       crosslane_session_is_simulated(session) ? ", in simulated time" : "");

	check(crosslane_channel_close(channel));
	check(crosslane_buffer_destroy(buffer));
	check(crosslane_device_close(device));
	check(crosslane_session_close(session));
	if (differs)
		fprintf(stderr, "first_transfer: the data are not those of the generator\n");
	return differs != 0;
}
