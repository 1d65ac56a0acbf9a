# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The vendor's core as an empty module with the ports that its settings give it, for the linter and
for simulation, where a bus model drives its outputs.

Ports of pcie_7x: pcileech-fpga, c538c41, CaptainDMA/100t484-1/ip/pcie_7x_0.xci (all but those of
error reporting and credits); litepcie, 0047f4b, litepcie/phy/s7pciephy.py (those as well).
"""

from boards import Board

# Direction, name, bits; by the setting that the ports belong to.
PORTS_7X = {
    None: """
        in sys_clk; in sys_rst_n; out user_clk_out; out user_reset_out; out user_lnk_up
        out user_app_rdy
        in pci_exp_rxp LANES; in pci_exp_rxn LANES; out pci_exp_txp LANES; out pci_exp_txn LANES
        out s_axis_tx_tready; in s_axis_tx_tdata WIDTH; in s_axis_tx_tkeep BYTES
        in s_axis_tx_tlast; in s_axis_tx_tvalid; in s_axis_tx_tuser 4
        out m_axis_rx_tdata WIDTH; out m_axis_rx_tkeep BYTES; out m_axis_rx_tlast
        out m_axis_rx_tvalid; in m_axis_rx_tready; out m_axis_rx_tuser 22
        in cfg_interrupt; out cfg_interrupt_rdy; in cfg_interrupt_assert; in cfg_interrupt_di 8
        out cfg_interrupt_do 8; out cfg_interrupt_mmenable 3; out cfg_interrupt_msienable
        out cfg_interrupt_msixenable; out cfg_interrupt_msixfm; in cfg_interrupt_stat
        in cfg_pciecap_interrupt_msgnum 5
    """,
    "cfg_ctl_if": """
        in tx_cfg_gnt; in rx_np_ok; in rx_np_req; in cfg_trn_pending; in cfg_pm_halt_aspm_l0s
        in cfg_pm_halt_aspm_l1; in cfg_pm_force_state_en; in cfg_pm_force_state 2; in cfg_dsn 64
        in cfg_turnoff_ok; in cfg_pm_wake; in cfg_pm_send_pme_to; in cfg_ds_bus_number 8
        in cfg_ds_device_number 5; in cfg_ds_function_number 3
    """,
    "cfg_status_if": """
        out tx_buf_av 6; out tx_err_drop; out tx_cfg_req; out cfg_status 16; out cfg_command 16
        out cfg_dstatus 16; out cfg_dcommand 16; out cfg_lstatus 16; out cfg_lcommand 16
        out cfg_dcommand2 16; out cfg_pcie_link_state 3; out cfg_pmcsr_pme_en
        out cfg_pmcsr_powerstate 2; out cfg_pmcsr_pme_status; out cfg_received_func_lvl_rst
        out cfg_to_turnoff; out cfg_bus_number 8; out cfg_device_number 5
        out cfg_function_number 3; out cfg_bridge_serr_en
        out cfg_slot_control_electromech_il_ctl_pulse; out cfg_root_control_syserr_corr_err_en
        out cfg_root_control_syserr_non_fatal_err_en; out cfg_root_control_syserr_fatal_err_en
        out cfg_root_control_pme_int_en; out cfg_aer_rooterr_corr_err_reporting_en
        out cfg_aer_rooterr_non_fatal_err_reporting_en; out cfg_aer_rooterr_fatal_err_reporting_en
        out cfg_aer_rooterr_corr_err_received; out cfg_aer_rooterr_non_fatal_err_received
        out cfg_aer_rooterr_fatal_err_received; out cfg_vc_tcvc_map 7
    """,
    "cfg_fc_if": """
        out fc_ph 8; out fc_pd 12; out fc_nph 8; out fc_npd 12; out fc_cplh 8; out fc_cpld 12
        in fc_sel 3
    """,
    "err_reporting_if": """
        in cfg_err_ecrc; in cfg_err_ur; in cfg_err_cpl_timeout; in cfg_err_cpl_unexpect
        in cfg_err_cpl_abort; in cfg_err_posted; in cfg_err_cor; in cfg_err_atomic_egress_blocked
        in cfg_err_internal_cor; in cfg_err_malformed; in cfg_err_mc_blocked; in cfg_err_poisoned
        in cfg_err_norecovery; in cfg_err_tlp_cpl_header 48; out cfg_err_cpl_rdy
        in cfg_err_locked; in cfg_err_acs; in cfg_err_internal_uncor
        in cfg_err_aer_headerlog 128; in cfg_aer_interrupt_msgnum 5
        out cfg_err_aer_headerlog_set; out cfg_aer_ecrc_check_en; out cfg_aer_ecrc_gen_en
    """,
}
PORTS = {"pcie_7x": PORTS_7X}
# Settings whose ports the tops do not have: a core with them would leave inputs open.
REFUSED = {"pcie_7x": ["pl_interface", "cfg_mgmt_if", "rcv_msg_if", "PCIe_Debug_Ports"]}


def ports(board: Board) -> list[tuple[str, str, int]]:
    """Direction, name and bits of each port of a board's core."""
    core = board.core
    for setting in REFUSED[core.name]:
        assert board.properties[setting] == "false", f"{setting} adds ports that no top connects"
    numbers = {"LANES": core.lanes, "WIDTH": core.width_bits, "BYTES": core.width_bits // 8}
    found = []
    for setting, text in PORTS[core.name].items():
        if setting is not None and board.properties[setting] != "true":
            continue
        for entry in text.replace("\n", ";").split(";"):
            if words := entry.split():
                bits = words[2] if len(words) > 2 else "1"
                found.append((words[0], words[1], numbers.get(bits) or int(bits)))
    return found


def module(board: Board) -> str:
    """The text of the empty module."""
    lines = []
    for direction, name, bits in ports(board):
        width = f" [{bits - 1}:0]" if bits > 1 else ""
        lines.append(f"    {direction}put logic{width} {name} /* verilator public_flat_rw */")
    return (
        "// SPDX-License-Identifier: Apache-2.0 OR MIT\n"
        "// Made by gateware/boards/vendor_core.py.\n"
        "// verilator lint_off UNDRIVEN\n"
        "// verilator lint_off UNUSEDSIGNAL\n"
        "module crosslane_pcie (\n" + ",\n".join(lines) + "\n);\nendmodule\n"
        "// verilator lint_on UNUSEDSIGNAL\n"
        "// verilator lint_on UNDRIVEN\n"
    )
