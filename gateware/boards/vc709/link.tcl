# SPDX-License-Identifier: Apache-2.0 OR MIT
# VC709: the cage of SFP+ P3, GTH X1Y12 of quad 113: the wizard's channel 12 and Q3. P2, P4 and P5
# have channels 13, 14 and 15. The reference is the board's Si5324, once it has been programmed.
# Sources are in ../transceivers/README.md.
set link {
    core        gtwizard
    type        gth
    channel     12
    refclk      REFCLK0_Q3
    refclk_mhz  156.25
}
