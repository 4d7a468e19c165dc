//go:build integration

package integration

// What the larger servers list.
var (
	playwrightTools = []string{
		"browser_click", "browser_close", "browser_console_messages", "browser_drag", "browser_drop",
		"browser_emulate_media", "browser_evaluate", "browser_file_upload", "browser_fill_form", "browser_find",
		"browser_handle_dialog", "browser_hover", "browser_navigate", "browser_navigate_back", "browser_network_request",
		"browser_network_requests", "browser_press_key", "browser_resize", "browser_run_code_unsafe",
		"browser_select_option", "browser_snapshot", "browser_tabs", "browser_take_screenshot", "browser_type",
		"browser_wait_for",
	}
	devtoolsTools = []string{
		"click", "close_page", "drag", "emulate", "evaluate_script", "fill", "fill_form", "get_console_message",
		"get_css_styles", "get_network_request", "handle_dialog", "hover", "lighthouse_audit", "list_console_messages",
		"list_network_requests", "list_pages", "navigate_page", "new_page", "performance_analyze_insight",
		"performance_start_trace", "performance_stop_trace", "press_key", "resize_page", "screencast_start",
		"screencast_stop", "select_page", "take_heapsnapshot", "take_screenshot", "take_snapshot", "type_text",
		"upload_file", "wait_for",
	}
	githubTools = []string{
		"add_comment_to_pending_review", "add_issue_comment", "add_reply_to_pull_request_comment",
		"assign_copilot_to_issue", "create_branch", "create_or_update_file", "create_pull_request", "create_repository",
		"delete_file", "fork_repository", "get_commit", "get_file_contents", "get_label", "get_latest_release", "get_me",
		"get_release_by_tag", "get_tag", "get_team_members", "get_teams", "issue_read", "issue_write", "list_branches",
		"list_commits", "list_issue_fields", "list_issue_types", "list_issues", "list_pull_requests", "list_releases",
		"list_repository_collaborators", "list_tags", "merge_pull_request", "pull_request_read",
		"pull_request_review_write", "push_files", "request_copilot_review", "search_code", "search_commits",
		"search_issues", "search_pull_requests", "search_repositories", "search_users", "sub_issue_write",
		"update_pull_request", "update_pull_request_branch",
	}
	fastTools = []string{"add", "greet"}
)
