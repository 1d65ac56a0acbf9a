// SPDX-License-Identifier: Apache-2.0 OR MIT
/* A client of a bridge that shows a certificate: `certificates SERVER FOLDER`, where the folder has
 * certificates of the authority that the server trusts, and of another one. */
#include "check.h"

#define BYTES 4096

static char *file(const char *folder, const char *name) {
	size_t bytes = strlen(folder) + strlen(name) + 2;
	char *made = malloc(bytes);
	CHECK(made != NULL);
	snprintf(made, bytes, "%s/%s", folder, name);
	return made;
}

static void moves_data(crosslane_bridge *bridge) {
	crosslane_bridge_memory *memory = NULL;
	unsigned char out[BYTES], in[BYTES];
	OK(crosslane_bridge_memory_create(bridge, BYTES, &memory));
	OK(crosslane_pattern(out, BYTES, 5, 0));
	OK(crosslane_bridge_memory_write(memory, 0, out, BYTES));
	crosslane_bridge_job job = {.size = sizeof job, .card = "card", .from = memory, .bytes = BYTES};
	OK(crosslane_bridge_transfer(bridge, &job, NULL));
	memset(in, 0, BYTES);
	OK(crosslane_bridge_memory_write(memory, 0, in, BYTES));
	job.kind = CROSSLANE_DMA_FROM_CARD;
	job.to = memory;
	OK(crosslane_bridge_transfer(bridge, &job, NULL));
	OK(crosslane_bridge_memory_read(memory, 0, in, BYTES));
	CHECK(memcmp(in, out, BYTES) == 0);
	OK(crosslane_bridge_memory_destroy(memory));
}

int main(int count, char **arguments) {
	CHECK(count == 3);
	const char *server = arguments[1], *folder = arguments[2];
	char *cert = file(folder, "rnode.example.pem"), *key = file(folder, "rnode.example.key");
	char *ca = file(folder, "ours.pem"), *other_ca = file(folder, "theirs.pem");
	char *stranger = file(folder, "stranger.example.pem");
	char *stranger_key = file(folder, "stranger.example.key");

	crosslane_bridge *bridge = NULL;
	crosslane_bridge_attr attr = {.size = sizeof attr, .tls_cert = cert, .tls_key = key};
	FAILS(crosslane_bridge_connect(server, &attr, &bridge), EINVAL, "tls_ca is missing");
	attr.tls_ca = ca;
	attr.tls_key = NULL;
	FAILS(crosslane_bridge_connect(server, &attr, &bridge), EINVAL, "tls_key is missing");
	attr.tls_key = stranger_key;
	FAILS(crosslane_bridge_connect(server, &attr, &bridge), EINVAL, "it is not the key of");
	attr.tls_key = "/nonexistent/key";
	FAILS(crosslane_bridge_connect(server, &attr, &bridge), ENOENT, "/nonexistent/key");
	attr.tls_key = key;
	attr.key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	FAILS(crosslane_bridge_connect(server, &attr, &bridge), EINVAL, "certificates and a key");
	attr.key = NULL;
	attr.network = "tcp";
	FAILS(crosslane_bridge_connect(server, &attr, &bridge), EINVAL, "takes no certificates");
	attr.network = NULL;
	attr.trust_network = 1;
	FAILS(crosslane_bridge_connect(server, &attr, &bridge), EINVAL, "a network that is trusted");
	attr.trust_network = 0;
	crosslane_bridge_attr far = {.size = sizeof far, .network = "tcp"};
	FAILS(crosslane_bridge_connect("192.0.2.1:7471", &far, &bridge), EACCES, "nobody means harm");
	/* The server's authority is not trusted; then the client's is not. */
	attr.tls_ca = other_ca;
	FAILS(crosslane_bridge_connect(server, &attr, &bridge), EACCES, "no authority in ");
	attr.tls_ca = ca;
	attr.tls_cert = stranger;
	attr.tls_key = stranger_key;
	FAILS(crosslane_bridge_connect(server, &attr, &bridge), EACCES, "trusts no authority that");
	/* A program that was compiled before there were certificates: the server wants one. */
	attr.size = offsetof(crosslane_bridge_attr, tls_cert);
	attr.network = "tls";
	FAILS(crosslane_bridge_connect(server, &attr, &bridge), EACCES, "not sealed");
	attr.size--;
	FAILS(crosslane_bridge_connect(server, &attr, &bridge), EINVAL, "size");
	CHECK(bridge == NULL);

	crosslane_bridge_attr good = {.size = sizeof good, .tls_cert = cert, .tls_key = key};
	good.tls_ca = ca;
	OK(crosslane_bridge_connect(server, &good, &bridge));
	moves_data(bridge);
	OK(crosslane_bridge_close(bridge));
	char *files[] = {cert, key, ca, other_ca, stranger, stranger_key};
	for (size_t index = 0; index < sizeof files / sizeof *files; index++)
		free(files[index]);
	puts("passed");
	return 0;
}
