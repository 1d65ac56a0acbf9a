// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The program wc_perf of the aws-f1 paper, on the lab aws-f1 or a card of CROSSLANE_SLOTS: how fast the
 * host writes into BAR 4, with and without write combining.
 *
 *   cc wc_perf.c $(pkg-config --cflags --libs crosslane) -o wc_perf
 *   ./wc_perf -i 1024 -w */
#include <crosslane/fpga_pci.h>
#include <stdio.h>
#include <unistd.h>

static int failed(const char *what, int code) {
	fprintf(stderr, "wc_perf: %s: %s\n", what,
		code == crosslane_last_error()->code ? crosslane_last_error()->sentence
						     : strerror(-code));
	return 1;
}

int main(int count, char **arguments) {
	uint64_t most = 16;
	int passes = 1, write_combine = 0, use_custom = 0, verbose = 0, option;
	while ((option = getopt(count, arguments, "i:p:wcvh")) != -1) {
		switch (option) {
		case 'i':
			most = strtoull(optarg, NULL, 0);
			break;
		case 'p':
			passes = atoi(optarg);
			break;
		case 'w':
			write_combine = BURST_CAPABLE;
			break;
		case 'c':
			use_custom = 1;
			break;
		case 'v':
			verbose = 1;
			break;
		default:
			fprintf(option == 'h' ? stdout : stderr,
				"usage: wc_perf [-i integers] [-p passes] [-w] [-c] [-v]\n");
			return option == 'h' ? 0 : 2;
		}
	}
	if (most < 16 || most > 1 << 24 || passes < 1) {
		fprintf(stderr, "wc_perf: -i takes 16 to %d integers, -p at least 1 pass\n", 1 << 24);
		return 2;
	}
	pci_bar_handle_t bar;
	int code = fpga_pci_attach(0, 0, 4, (uint32_t)write_combine, &bar);
	if (code < 0)
		return failed("cannot attach BAR 4 of slot 0", code);
	crosslane_memory_card_counters counters = {.size = sizeof counters};
	code = crosslane_fpga_metrics(0, &counters);
	uint32_t *buffer = malloc(most * sizeof *buffer);
	if (buffer == NULL || code < 0)
		return failed("cannot begin", code < 0 ? code : -ENOMEM);
	for (uint64_t word = 0; word < most; word++)
		buffer[word] = (uint32_t)word;
	printf("size (bytes) GB/s\n");
	for (uint64_t words = 16; words <= most && code == 0; words *= 2) {
		uint64_t start = 0, end = 0;
		code = crosslane_fpga_now(bar, &start);
		for (int pass = 0; pass < passes && code == 0; pass++) {
			if (use_custom)
				code = crosslane_fpga_pci_move(bar, 0, buffer, 4 * words);
			else
				code = fpga_pci_write_burst(bar, 0, buffer, words);
		}
		if (code == 0)
			code = crosslane_fpga_now(bar, &end);
		double bytes = 4.0 * (double)words * passes;
		printf("%llu %.6f\n", (unsigned long long)(4 * words),
		       1e3 * bytes / (double)(end - start));
	}
	free(buffer);
	int detached = fpga_pci_detach(bar);
	if (code < 0 || detached < 0)
		return failed("cannot write", code < 0 ? code : detached);
	if (verbose) {
		code = crosslane_fpga_metrics(0, &counters);
		if (code < 0)
			return failed("cannot take the counters", code);
		for (uint32_t bank = 0; bank < counters.banks && bank < 16; bank++)
			printf("DDR%u\n   write-count=%u\n   read-count=%u\n", bank,
			       counters.write_beats[bank], counters.read_beats[bank]);
	}
	return 0;
}
