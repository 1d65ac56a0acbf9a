// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The program's own memory goes to the card's memory, is copied there, and comes back. */
#include "check.h"

#define BYTES 20000

int main(void) {
	crosslane_session *session = NULL;
	crosslane_device *device = NULL;
	OK(crosslane_session_open("lab:sbdt:crosslane/pac", NULL, &session));
	OK(crosslane_device_open(session, 0, &device));
	crosslane_description description = {.size = sizeof description};
	OK(crosslane_device_describe(device, &description));
	CHECK(description.has_card_memory == 1);

	unsigned char *out = malloc(BYTES), *in = calloc(1, BYTES);
	CHECK(out != NULL && in != NULL);
	for (size_t byte = 0; byte < BYTES; byte++)
		out[byte] = (unsigned char)(byte * byte >> 3);
	crosslane_buffer *from = NULL, *into = NULL;
	OK(crosslane_buffer_register(device, out, BYTES, NULL, &from));
	OK(crosslane_buffer_register(device, in, BYTES, NULL, &into));
	FAILS(crosslane_buffer_read(from, 0, in, 1), EINVAL, "own memory");

	crosslane_channel_attr attr = {.size = sizeof attr, .flags = CROSSLANE_CHANNEL_CARD_MEMORY};
	crosslane_channel *h2c = NULL, *c2h = NULL;
	OK(crosslane_channel_open(device, CROSSLANE_H2C, 0, &attr, &h2c));
	OK(crosslane_channel_open(device, CROSSLANE_C2H, 0, &attr, &c2h));
	crosslane_transfer to_card = {.size = sizeof to_card, .buffer = from, .bytes = BYTES};
	to_card.card_address = 4096;
	OK(crosslane_channel_transfer(h2c, &to_card, NULL));

	crosslane_transfer back = {.size = sizeof back, .buffer = into, .bytes = BYTES - 32};
	back.card_address = 4096 + 32;
	back.level = CROSSLANE_LEVEL_ACCEPTED;
	FAILS(crosslane_channel_post(c2h, &back, 1), EOPNOTSUPP, "copied");
	back.level = 0;
	OK(crosslane_channel_post(c2h, &back, 1));
	/* The program's memory changes with the completion. */
	CHECK(memcmp(in, out + 32, 64) != 0);
	crosslane_completion done = {.size = sizeof done};
	CHECK(crosslane_channel_wait(c2h, &done, 1, CROSSLANE_FOREVER) == 1 && done.status == 0);
	CHECK(memcmp(in, out + 32, BYTES - 32) == 0 && in[BYTES - 32] == 0);

	crosslane_transfer copy = {.size = sizeof copy, .bytes = 4096, .card_address = 4096};
	copy.card_to = 1 << 20;
	copy.flags = CROSSLANE_TRANSFER_CARD_TO_CARD;
	if (description.has_card_copy) {
		OK(crosslane_channel_transfer(c2h, &copy, NULL));
		back.bytes = 4096;
		back.card_address = 1 << 20;
		OK(crosslane_channel_transfer(c2h, &back, NULL));
		CHECK(memcmp(in, out, 4096) == 0);
	} else {
		FAILS(crosslane_channel_transfer(c2h, &copy, NULL), EOPNOTSUPP, "does not copy");
	}
	OK(crosslane_channel_close(c2h));
	OK(crosslane_channel_close(h2c));
	OK(crosslane_buffer_destroy(into));
	OK(crosslane_buffer_destroy(from));
	OK(crosslane_device_close(device));
	OK(crosslane_session_close(session));
	free(in);
	free(out);
	puts("passed");
	return 0;
}
