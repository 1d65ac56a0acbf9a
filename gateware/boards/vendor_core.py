# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The vendor's core as an empty module with the ports that its settings give it, for the linter and
for simulation, where a bus model drives its outputs.

Ports of pcie_7x: pcileech-fpga, c538c41, CaptainDMA/100t484-1/ip/pcie_7x_0.xci (all but those of
error reporting and credits); litepcie, 0047f4b, litepcie/phy/s7pciephy.py (those as well). Of the
UltraScale+ cores: verilog-pcie, 25156a9, example/Alveo/fpga/rtl/fpga_au50.v and fpga_au200.v, and
PG213 for widths. Of pcie3_7x: the module that Vivado 2024.2 has written for its core of MSI-X with
all optional ports (NetFPGA-SUME of Lampranthus, d394e81, pcie3_7x_0_stub.v). Of the P-Tile:
corundum, 1ca0151, fpga/lib/pcie/example/S10DX_DK/fpga/rtl/fpga.v, and for widths ndk-fpga, d2c22dc,
core/comp/pcie/pcie_mod/comp/pcie_core/pcie_core_ptile.vhd.
"""

import re

from boards import PCIE4, PTILE, Board

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
# User bits are those of 512 bits of data.
PORTS_PCIE4 = {
    None: """
        in sys_clk; in sys_clk_gt; in sys_reset; out user_clk; out user_reset; out user_lnk_up
        out phy_rdy_out
        in pci_exp_rxp LANES; in pci_exp_rxn LANES; out pci_exp_txp LANES; out pci_exp_txn LANES
        in s_axis_rq_tdata WIDTH; in s_axis_rq_tkeep WORDS; in s_axis_rq_tlast
        out s_axis_rq_tready; in s_axis_rq_tuser 137; in s_axis_rq_tvalid
        out m_axis_rc_tdata WIDTH; out m_axis_rc_tkeep WORDS; out m_axis_rc_tlast
        in m_axis_rc_tready; out m_axis_rc_tuser 161; out m_axis_rc_tvalid
        out m_axis_cq_tdata WIDTH; out m_axis_cq_tkeep WORDS; out m_axis_cq_tlast
        in m_axis_cq_tready; out m_axis_cq_tuser 183; out m_axis_cq_tvalid
        in s_axis_cc_tdata WIDTH; in s_axis_cc_tkeep WORDS; in s_axis_cc_tlast
        out s_axis_cc_tready; in s_axis_cc_tuser 81; in s_axis_cc_tvalid
        out pcie_rq_seq_num0 6; out pcie_rq_seq_num_vld0; out pcie_rq_seq_num1 6
        out pcie_rq_seq_num_vld1; out pcie_rq_tag0 8; out pcie_rq_tag1 8; out pcie_rq_tag_av 4
        out pcie_rq_tag_vld0; out pcie_rq_tag_vld1; out pcie_tfc_nph_av 4; out pcie_tfc_npd_av 4
        in pcie_cq_np_req 2; out pcie_cq_np_req_count 6
        out cfg_phy_link_down; out cfg_phy_link_status 2; out cfg_negotiated_width 3
        out cfg_current_speed 2; out cfg_max_payload 2; out cfg_max_read_req 3
        out cfg_function_status 16; out cfg_function_power_state 12; out cfg_link_power_state 2
        in cfg_mgmt_addr 10; in cfg_mgmt_function_number 8; in cfg_mgmt_write
        in cfg_mgmt_write_data 32; in cfg_mgmt_byte_enable 4; in cfg_mgmt_read
        out cfg_mgmt_read_data 32; out cfg_mgmt_read_write_done; in cfg_mgmt_debug_access
        out cfg_err_cor_out; out cfg_err_nonfatal_out; out cfg_err_fatal_out
        out cfg_local_error_valid; out cfg_local_error_out 5; out cfg_ltssm_state 6
        out cfg_rcb_status 4
        in cfg_msg_transmit; in cfg_msg_transmit_type 3; in cfg_msg_transmit_data 32
        out cfg_msg_transmit_done
        out cfg_fc_ph 8; out cfg_fc_pd 12; out cfg_fc_nph 8; out cfg_fc_npd 12; out cfg_fc_cplh 8
        out cfg_fc_cpld 12; in cfg_fc_sel 3
        in cfg_dsn 64; out cfg_bus_number 8; in cfg_power_state_change_ack
        out cfg_power_state_change_interrupt; in cfg_err_cor_in; in cfg_err_uncor_in
        out cfg_flr_in_process 4; in cfg_flr_done 4; in cfg_vf_flr_func_num 8; in cfg_vf_flr_done
        in cfg_link_training_enable; in cfg_interrupt_int 4; in cfg_interrupt_pending 4
        out cfg_interrupt_sent; out cfg_interrupt_msix_enable 4; out cfg_interrupt_msix_mask 4
        in cfg_interrupt_msix_address 64; in cfg_interrupt_msix_data 32; in cfg_interrupt_msix_int
        in cfg_interrupt_msix_vec_pending 2; out cfg_interrupt_msix_vec_pending_status
        out cfg_interrupt_msi_sent; out cfg_interrupt_msi_fail
        in cfg_interrupt_msi_function_number 8; in cfg_pm_aspm_l1_entry_reject
        in cfg_pm_aspm_tx_l0s_entry_disable; out cfg_hot_reset_out; in cfg_config_space_enable
        in cfg_req_pm_transition_l23_ready; in cfg_hot_reset_in; in cfg_ds_port_number 8
        in cfg_ds_bus_number 8; in cfg_ds_device_number 5
    """
}
# EQUAL: bits that are all the same.
EQUAL_BITS = 4
PORTS_PCIE3 = {
    None: """
        in sys_clk; in sys_reset; out user_clk; out user_reset; out user_lnk_up; out user_app_rdy
        in pci_exp_rxp LANES; in pci_exp_rxn LANES; out pci_exp_txp LANES; out pci_exp_txn LANES
        in s_axis_rq_tdata WIDTH; in s_axis_rq_tkeep WORDS; in s_axis_rq_tlast
        out s_axis_rq_tready EQUAL; in s_axis_rq_tuser 60; in s_axis_rq_tvalid
        out m_axis_rc_tdata WIDTH; out m_axis_rc_tkeep WORDS; out m_axis_rc_tlast
        in m_axis_rc_tready; out m_axis_rc_tuser 75; out m_axis_rc_tvalid
        out m_axis_cq_tdata WIDTH; out m_axis_cq_tkeep WORDS; out m_axis_cq_tlast
        in m_axis_cq_tready; out m_axis_cq_tuser 85; out m_axis_cq_tvalid
        in s_axis_cc_tdata WIDTH; in s_axis_cc_tkeep WORDS; in s_axis_cc_tlast
        out s_axis_cc_tready EQUAL; in s_axis_cc_tuser 33; in s_axis_cc_tvalid
        in pcie_cq_np_req; out pcie_cq_np_req_count 6
        in cfg_interrupt_int 4; in cfg_interrupt_pending 2; out cfg_interrupt_sent
        out cfg_interrupt_msix_enable 2; out cfg_interrupt_msix_mask 2
        out cfg_interrupt_msix_vf_enable 6; out cfg_interrupt_msix_vf_mask 6
        in cfg_interrupt_msix_data 32; in cfg_interrupt_msix_address 64; in cfg_interrupt_msix_int
        out cfg_interrupt_msix_sent; out cfg_interrupt_msix_fail
        in cfg_interrupt_msi_function_number 3
    """,
    "cfg_status_if": """
        out pcie_rq_seq_num 4; out pcie_rq_seq_num_vld; out pcie_rq_tag 6; out pcie_rq_tag_vld
        out cfg_phy_link_down; out cfg_phy_link_status 2; out cfg_negotiated_width 4
        out cfg_current_speed 3; out cfg_max_payload 3; out cfg_max_read_req 3
        out cfg_function_status 8; out cfg_function_power_state 6; out cfg_vf_status 12
        out cfg_vf_power_state 18; out cfg_link_power_state 2; out cfg_err_cor_out
        out cfg_err_nonfatal_out; out cfg_err_fatal_out; out cfg_ltr_enable; out cfg_ltssm_state 6
        out cfg_rcb_status 2; out cfg_dpa_substate_change 2; out cfg_obff_enable 2
        out cfg_pl_status_change; out cfg_tph_requester_enable 2; out cfg_tph_st_mode 6
        out cfg_vf_tph_requester_enable 6; out cfg_vf_tph_st_mode 18
    """,
    "cfg_mgmt_if": """
        in cfg_mgmt_addr 19; in cfg_mgmt_write; in cfg_mgmt_write_data 32; in cfg_mgmt_byte_enable 4
        in cfg_mgmt_read; out cfg_mgmt_read_data 32; out cfg_mgmt_read_write_done
        in cfg_mgmt_type1_cfg_reg_access
    """,
    "cfg_fc_if": """
        out cfg_fc_ph 8; out cfg_fc_pd 12; out cfg_fc_nph 8; out cfg_fc_npd 12; out cfg_fc_cplh 8
        out cfg_fc_cpld 12; in cfg_fc_sel 3
    """,
    "cfg_ctl_if": """
        in cfg_per_function_number 3; in cfg_per_function_output_request
        out cfg_per_function_update_done; in cfg_subsys_vend_id 16; in cfg_dsn 64
        in cfg_power_state_change_ack; out cfg_power_state_change_interrupt; in cfg_err_cor_in
        in cfg_err_uncor_in; out cfg_flr_in_process 2; in cfg_flr_done 2
        out cfg_vf_flr_in_process 6; in cfg_vf_flr_done 6; in cfg_link_training_enable
        out cfg_hot_reset_out; in cfg_config_space_enable; in cfg_req_pm_transition_l23_ready
        in cfg_hot_reset_in; in cfg_ds_port_number 8; in cfg_ds_bus_number 8
        in cfg_ds_device_number 5; in cfg_ds_function_number 3
    """,
}
# EACH: a port for each lane, its number behind the name.
PORTS_PTILE = {
    None: """
        in refclk0; in refclk1; in pin_perst_n; in ninit_done; out coreclkout_hip
        out p0_reset_status_n; out p0_pin_perst_n
        in rx_p_in EACH; in rx_n_in EACH; out tx_p_out EACH; out tx_n_out EACH
        out p0_rx_st_valid_o SEGMENTS; in p0_rx_st_ready_i; out p0_rx_st_sop_o SEGMENTS
        out p0_rx_st_eop_o SEGMENTS; out p0_rx_st_data_o WIDTH; out p0_rx_st_empty_o SEGMENTS*3
        out p0_rx_st_hdr_o SEGMENTS*128; out p0_rx_st_tlp_prfx_o SEGMENTS*32
        out p0_rx_st_bar_range_o SEGMENTS*3; out p0_rx_st_tlp_abort_o SEGMENTS; out p0_rx_par_err_o
        in p0_tx_st_valid_i SEGMENTS; out p0_tx_st_ready_o; in p0_tx_st_sop_i SEGMENTS
        in p0_tx_st_eop_i SEGMENTS; in p0_tx_st_err_i SEGMENTS; in p0_tx_st_data_i WIDTH
        in p0_tx_st_hdr_i SEGMENTS*128; in p0_tx_st_tlp_prfx_i SEGMENTS*32; out p0_tx_par_err_o
        out p0_tx_cdts_limit_o 16; out p0_tx_cdts_limit_tdm_idx_o 3
        out p0_tl_cfg_func_o 3; out p0_tl_cfg_add_o 5; out p0_tl_cfg_ctl_o 16
        out p0_dl_timer_update_o; out p0_link_up_o; out p0_dl_up_o; out p0_surprise_down_err_o
        out p0_ltssm_state_o 6
    """
}
PORTS = {
    PTILE: PORTS_PTILE,
    "pcie_7x": PORTS_7X,
    "pcie3_7x": PORTS_PCIE3,
    **dict.fromkeys(PCIE4, PORTS_PCIE4),
}
# Settings whose ports the tops do not have: a core with them would leave inputs open.
REFUSED = {
    "pcie_7x": ["pl_interface", "cfg_mgmt_if", "rcv_msg_if", "PCIe_Debug_Ports"],
    "pcie3_7x": [
        "cfg_ext_if",
        "cfg_tx_msg_if",
        "rcv_msg_if",
        "tx_fc_if",
        "per_func_status_if",
        "en_ext_clk",
        "shared_logic_in_core",
    ],
    **dict.fromkeys(PCIE4, ()),
    PTILE: [
        *(
            f"core16_enable_{name}_hwtcl"
            for name in (
                *("10bit_tag_support_intf", "apps_pm_xmt_turnoff", "apps_ready_entr_l23"),
                *("app_xfer_pending", "cii", "cpl_timeout", "error_intf", "hotplug", "legacy_int"),
                *("legacy_interrupt", "multi_func", "pld_warm_rst_rdy", "power_mgnt_intf"),
                *("prs_event", "rx_buffer_limit_ports", "sriov", "test_intf", "test_out", "virtio"),
            )
        ),
        "core16_flr_cap_user_hwtcl",
        "core16_hip_reconfig_user_hwtcl",
        "core16_use_ast_parity_hwtcl",
    ],
}


def ports(board: Board) -> list[tuple[str, str, int]]:
    """Direction, name and bits of each port of a board's core."""
    core = board.core
    for setting in REFUSED[core.name]:
        is_off = board.properties[setting] in ("false", "0")
        assert is_off, f"{setting} adds ports that no top connects"
    numbers = {"LANES": core.lanes, "WIDTH": core.width_bits}
    numbers |= {"BYTES": core.width_bits // 8, "WORDS": core.width_bits // 32}
    numbers |= {"EQUAL": EQUAL_BITS, "SEGMENTS": core.width_bits // 256}
    found = []
    for setting, text in PORTS[core.name].items():
        if setting is not None and board.properties[setting] != "true":
            continue
        for entry in text.replace("\n", ";").split(";"):
            if words := entry.split():
                bits, _, times = (words[2] if len(words) > 2 else "1").partition("*")
                if bits == "EACH":
                    found += [(words[0], f"{words[1]}{lane}", 1) for lane in range(core.lanes)]
                    continue
                count = (numbers.get(bits) or int(bits)) * int(times or 1)
                found.append((words[0], words[1], count))
    return found


def module(board: Board) -> str:
    """The text of the empty module. A bus model drives one bit for those that are all the same."""
    equal = re.findall(r"out (\w+) EQUAL", "".join(PORTS[board.core.name].values()))
    inside = "".join(
        f"  logic {name}_bit /* verilator public_flat_rw */;\n"
        f"  assign {name} = {{{EQUAL_BITS}{{{name}_bit}}}};\n"
        for name in equal
    )
    lines = []
    for direction, name, bits in ports(board):
        width = f" [{bits - 1}:0]" if bits > 1 else ""
        lines.append(f"    {direction}put logic{width} {name} /* verilator public_flat_rw */")
    return (
        "// SPDX-License-Identifier: Apache-2.0 OR MIT\n"
        "// Made by gateware/boards/vendor_core.py.\n"
        "// verilator lint_off UNDRIVEN\n"
        "// verilator lint_off UNUSEDSIGNAL\n"
        "module crosslane_pcie (\n" + ",\n".join(lines) + f"\n);\n{inside}endmodule\n"
        "// verilator lint_on UNUSEDSIGNAL\n"
        "// verilator lint_on UNDRIVEN\n"
    )
