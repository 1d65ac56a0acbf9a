// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Moves an array between the cards of two nodes, with an MPI rank on each:
 *
 *   mpicc two_nodes.c $(pkg-config --cflags --libs crosslane) -o two_nodes
 *   mpirun --host node0,node1 ./two_nodes node0:7471 node1:7471 verbs rnode rnode.key
 *
 * Every node has a bridge's server with a card, which `crosslane bridge serve` starts. Rank 0 puts
 * the array into the card of rank 1; rank 1 takes it out, changes it, and has its server copy
 * it into the card of rank 0, from which rank 0 takes it. The network, a name and the file of a key
 * may be left out. */
#include <crosslane.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS (1 << 18)
#define BYTES (NUMBERS * sizeof(double))
#define ADDRESS 0x1000
/* Digits of a key, a newline and the end. */
#define KEY_BYTES 66

static int rank;

/* Ends both ranks. */
static void fail(const char *sentence) {
	fprintf(stderr, "two_nodes: rank %d: %s\n", rank, sentence);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

/* Ends both ranks with the library's sentence if a call has failed. */
static void check(int code) {
	if (code < 0)
		fail(crosslane_last_error()->sentence);
}

/* A server, with memory of this node that it reaches. */
struct node {
	crosslane_bridge *bridge;
	crosslane_bridge_memory *memory;
};

static struct node connect_to(const char *server, const crosslane_bridge_attr *attr) {
	struct node node;
	check(crosslane_bridge_connect(server, attr, &node.bridge));
	check(crosslane_bridge_memory_create(node.bridge, BYTES, &node.memory));
	return node;
}

static void disconnect(struct node node) {
	check(crosslane_bridge_memory_destroy(node.memory));
	check(crosslane_bridge_close(node.bridge));
}

/* Makes a transfer of the array with a card, and prints at which rate. */
static void move(struct node node, crosslane_bridge_job job, const char *what) {
	job.size = sizeof job;
	job.card = "fpga0";
	job.card_address = ADDRESS;
	job.bytes = BYTES;
	job.flags = CROSSLANE_BRIDGE_CHECKSUM;
	crosslane_completion done = {.size = sizeof done};
	check(crosslane_bridge_transfer(node.bridge, &job, &done));
	double time_us = (double)(done.completed_ps - done.posted_ps) / 1e6;
	printf("rank %d: %s: %llu B, %.1f MB/s\n", rank, what, (unsigned long long)done.bytes,
	       (double)done.bytes / time_us);
}

/* The number at a place of the array that rank 0 begins with. */
static double number(int place) {
	return place * 0.5 + 1;
}

/* Puts the array, times a factor, into a card. */
static void put(struct node node, double *array, double factor, const char *what) {
	for (int place = 0; place < NUMBERS; place++)
		array[place] = factor * number(place);
	check(crosslane_bridge_memory_write(node.memory, 0, array, BYTES));
	move(node, (crosslane_bridge_job){.kind = CROSSLANE_DMA_TO_CARD, .from = node.memory}, what);
}

/* Takes the array out of a card, and ends both ranks if it is not as it should be. */
static void take(struct node node, double *array, double factor, const char *what) {
	move(node, (crosslane_bridge_job){.kind = CROSSLANE_DMA_FROM_CARD, .to = node.memory}, what);
	check(crosslane_bridge_memory_read(node.memory, 0, array, BYTES));
	for (int place = 0; place < NUMBERS; place++)
		if (array[place] != factor * number(place))
			fail("the array has changed on its way");
}

/* Copies the array from a card into that of another server. */
static void copy(struct node node, const char *server) {
	crosslane_bridge_job job = {.kind = CROSSLANE_BRIDGE_TO_PEER, .peer_server = server};
	job.peer_card = "fpga0";
	job.peer_address = ADDRESS;
	move(node, job, "array from card to card");
}

int main(int count, char **arguments) {
	int ranks;
	char key[KEY_BYTES] = "";
	MPI_Init(&count, &arguments);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks != 2 || count < 3 || count > 6 || count == 5)
		fail("mpirun -n 2 two_nodes SERVER0 SERVER1 [NETWORK [NAME KEYFILE]]");

	crosslane_bridge_attr attr = {.size = sizeof attr};
	if (count > 3)
		attr.network = arguments[3];
	if (count > 5) {
		FILE *file = fopen(arguments[5], "r");
		if (file == NULL || fgets(key, KEY_BYTES, file) == NULL)
			fail("the file of the key cannot be read");
		fclose(file);
		attr.name = arguments[4];
		attr.key = key;
	}
	struct node near = connect_to(arguments[1 + rank], &attr);
	struct node far = connect_to(arguments[2 - rank], &attr);
	double *array = malloc(BYTES);
	if (array == NULL)
		fail("no memory");

	/* Data go by the bridge; MPI says when they are there. */
	if (rank == 0) {
		put(far, array, 1, "array to the card of node 1");
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Barrier(MPI_COMM_WORLD);
		take(near, array, -1, "array from the own card");
	} else {
		MPI_Barrier(MPI_COMM_WORLD);
		take(near, array, 1, "array from the own card");
		put(near, array, -1, "array to the own card");
		copy(near, arguments[1]);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	printf("rank %d: every number is as it should be\n", rank);

	free(array);
	disconnect(near);
	disconnect(far);
	MPI_Finalize();
	return 0;
}
