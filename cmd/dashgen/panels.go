package main

// quantiles returns the lines for the median, the 95th and the 99th percentile of a histogram.
func quantiles(histogram, labels string) []line {
	var list []line
	for _, q := range []struct{ of, legend string }{{"0.5", "median"}, {"0.95", "95th percentile"}, {"0.99", "99th percentile"}} {
		list = append(list, line{"histogram_quantile(" + q.of + ", sum by (le) (rate(" + histogram + "_bucket{OF" + labels + "}[$__rate_interval])))", q.legend})
	}
	return list
}

// rate returns the line of a counter's rate per second, by some labels.
func rate(counter, by, legend string) line {
	if by == "" {
		return line{"sum(rate(" + counter + "{OF}[$__rate_interval]))", legend}
	}
	return line{"sum by (" + by + ") (rate(" + counter + "{OF}[$__rate_interval]))", legend}
}

// gauge returns the line of the sum over the nodes.
func gauge(name, by, legend string) line {
	if by == "" {
		return line{"sum(" + name + "{OF})", legend}
	}
	return line{"sum by (" + by + ") (" + name + "{OF})", legend}
}

// highest returns the line of the largest value of a node, for what all nodes report and for what must be low on each.
func highest(name, by, legend string) line {
	if by == "" {
		return line{"max(" + name + "{OF})", legend}
	}
	return line{"max by (" + by + ") (" + name + "{OF})", legend}
}

var dashboards = []dashboard{
	{"overview", "overview", []row{
		{"What customers notice", []panel{
			{"Error budgets", "How fast the budget of each objective is used up, in the last hour: 1 is as fast as allowed. Needs the rules in deploy/chart/rules.", "short",
				[]line{{`max by (slo) (stagedoor:burn_rate:1h{job=~"$job"})`, "{{slo}}"}}},
			{"Failures", "Requests that failed with a status of 500 or more, by problem. Those of the platform begin with upstream.", "reqps",
				[]line{rate("stagedoor_http_failures_total", "code", "{{code}}")}},
			{"Requests", "Answered requests by status. Many 4xx of one organisation are its own mistake; the console's request log names it.", "reqps",
				[]line{rate("stagedoor_http_requests_total", "status", "{{status}}")}},
			{"Failed requests", "The share of requests that failed with a status of 500 or more. The objective is less than 0.1 %.", "percentunit", []line{
				{`sum(rate(stagedoor_http_requests_total{OF,status=~"5.."}[$__rate_interval])) / sum(rate(stagedoor_http_requests_total{OF}[$__rate_interval]))`, "failed"},
			}},
			{"Duration of requests", "With the wait for platforms.", "s", quantiles("stagedoor_http_request_duration_seconds", "")},
			{"Time that we add to calls", "The duration of calls without the requests to platforms. The objective is 99 % within 100 ms.", "s", quantiles("stagedoor_http_overhead_seconds", "")},
			{"Delay of events", "From an event at the platform until it is stored, by the platform's clock.", "s", quantiles("stagedoor_event_store_seconds", "")},
			{"Delay of webhooks", "From the storing of an event until its receiver accepted it, with retries.", "s", quantiles("stagedoor_webhook_event_seconds", "")},
			{"Accounts", "By state. A sudden rise of reconnect_required or degraded means trouble at a platform or with proxies.", "short",
				[]line{highest("stagedoor_accounts", "state", "{{state}}")}},
		}},
		{"What is wrong", []panel{
			{"Alarms", "Each of these must be 0.", "short", []line{
				highest("stagedoor_admission_degraded", "", "Redis does not answer"),
				{"sum(increase(stagedoor_seal_corrupt_total{OF}[10m]))", "sealed texts that do not open"},
				{"sum(increase(stagedoor_listener_gaps_total{OF}[10m]))", "gaps in the events of an account"},
				{"sum(increase(stagedoor_ingest_dead_letters_total{OF}[10m]))", "dead letters"},
				{"sum(increase(stagedoor_ingest_log_lost_total{OF}[10m]))", "lost event logs"},
				{"1 - min(stagedoor_seal_kms_up{OF})", "the key service does not answer"},
			}},
			{"Overload", "Requests that nodes refused because they were overloaded, and those that wait.", "reqps", []line{
				rate("stagedoor_http_shed_total", "", "refused"), gauge("stagedoor_http_waiting", "", "waiting"),
			}},
			{"Audit stream", "Age of the oldest audit entry that was not streamed, entries that were, and failed tries.", "short", []line{
				highest("stagedoor_audit_stream_lag_seconds", "", "seconds"), rate("stagedoor_audit_stream_entries_total", "", "entries"),
				{"sum(increase(stagedoor_audit_stream_failures_total{OF}[$__rate_interval]))", "failures"},
			}},
			{"Usage webhook", "Time since the end of the oldest day that was not sent, days of organisations that were, and failed tries.", "short", []line{
				highest("stagedoor_usage_webhook_lag_seconds", "", "seconds"), rate("stagedoor_usage_webhook_sent_total", "", "days"),
				{"sum(increase(stagedoor_usage_webhook_failures_total{OF}[$__rate_interval]))", "failures"},
			}},
			{"Mails", "Tries to send mails, by kind and outcome. Many retries mean that the mail server is away; mails that failed are in the audit log of their organisation.", "short", []line{
				{"sum by (kind, outcome) (increase(stagedoor_mail_tries_total{OF}[$__rate_interval]))", "{{kind}} {{outcome}}"},
			}},
			{"Settings files", "Files that nodes cannot use as they are, changes that nodes have noticed, and organisations whose plan is not in the file of plans.", "short", []line{
				gauge("stagedoor_config_file_refused", "setting", "refused: {{setting}}"),
				{"sum by (setting, outcome) (increase(stagedoor_config_file_changes_total{OF}[$__rate_interval]))", "{{setting}} {{outcome}}"},
				highest("stagedoor_orgs_unlisted_plan", "plan", "plan {{plan}} is missing"),
			}},
		}},
	}},
	{"calls", "calls and platforms", []row{
		{"Calls", []panel{
			{"Calls", "Admitted calls of SDK methods, by class.", "reqps", []line{rate("stagedoor_calls_total", "class", "{{class}}")}},
			{"Calls that failed", "By the problem they ended with.", "reqps", []line{
				{`sum by (code) (rate(stagedoor_calls_total{OF,code!="ok"}[$__rate_interval]))`, "{{code}}"},
			}},
			{"Duration of calls", "By class, the 95th percentile.", "s", []line{
				{"histogram_quantile(0.95, sum by (le, class) (rate(stagedoor_call_duration_seconds_bucket{OF}[$__rate_interval])))", "{{class}}"},
			}},
			{"Refused, shared and repeated", "Calls refused before admission, reads that shared the result of another, and reads that were sent twice.", "reqps", []line{
				rate("stagedoor_calls_refused_total", "by", "refused: {{by}}"), rate("stagedoor_calls_shared_total", "", "shared"),
				rate("stagedoor_calls_retried_total", "", "sent twice"), rate("stagedoor_rotations_lost_total", "", "cookie changes lost"),
			}},
			{"Admission", "Decisions on limits. Alone means that Redis did not answer in time.", "reqps", []line{
				rate("stagedoor_admission_decisions_total", "how", "{{how}}"), rate("stagedoor_admission_late_total", "", "late answers of Redis"),
			}},
			{"File transfers", "In progress.", "short", []line{gauge("stagedoor_transfers", "", "transfers")}},
		}},
		{"Platforms", []panel{
			{"Requests to platforms", "By region and outcome. If one region fails, its proxies do; if all do, the platform does.", "reqps",
				[]line{rate("stagedoor_platform_request_seconds_count", "region, outcome", "{{region}} {{outcome}}")}},
			{"Duration of requests to platforms", "By region, the 95th percentile.", "s", []line{
				{"histogram_quantile(0.95, sum by (le, region) (rate(stagedoor_platform_request_seconds_bucket{OF}[$__rate_interval])))", "{{region}}"},
			}},
			{"Proxies", "Healthy ones by region; the lowest number that a node sees. At 0 the region's accounts cannot be used.", "short", []line{
				{"min by (region) (stagedoor_egress_proxies_healthy{OF})", "{{region}} healthy"}, highest("stagedoor_egress_proxies", "region", "{{region}} all"),
			}},
			{"Dials and checks that failed", "By region and reason.", "reqps", []line{
				{`sum by (region, outcome) (rate(stagedoor_egress_dials_total{OF,outcome!="ok"}[$__rate_interval]))`, "dial {{region}} {{outcome}}"},
				{`sum by (region, outcome) (rate(stagedoor_egress_checks_total{OF,outcome!="ok"}[$__rate_interval]))`, "check {{region}} {{outcome}}"},
				rate("stagedoor_egress_timeouts_excused_total", "region", "excused {{region}}"),
			}},
		}},
		{"Sign-ins", []panel{
			{"Attempts", "Begun and ended, by final state.", "reqps", []line{
				rate("stagedoor_connect_attempts_begun_total", "", "begun"), rate("stagedoor_connect_attempts_ended_total", "state", "{{state}}"),
			}},
			{"Failures", "By code. invalid_credentials is the creator's; upstream_… is the platform's.", "reqps", []line{
				{`sum by (code) (rate(stagedoor_connect_attempts_ended_total{OF,code!=""}[$__rate_interval]))`, "{{code}}"},
			}},
			{"Duration of attempts", "With the waits for the creator.", "s", quantiles("stagedoor_connect_attempt_seconds", "")},
			{"Open attempts", "By state.", "short", []line{highest("stagedoor_connect_attempts_open", "state", "{{state}}")}},
			{"Probes of accounts", "By what they found.", "reqps", []line{rate("stagedoor_account_probes_total", "found", "{{found}}")}},
		}},
	}},
	{"events", "events and deliveries", []row{
		{"Listeners", []panel{
			{"Sockets", "Accounts by the state of their socket.", "short", []line{gauge("stagedoor_listener_sockets", "state", "{{state}}")}},
			{"Frames", "From platforms, by class and source.", "reqps", []line{
				rate("stagedoor_listener_frames_total", "class, by", "{{class}} by {{by}}"), rate("stagedoor_listener_skipped_total", "why", "skipped: {{why}}"),
			}},
			{"Delay of frames", "From an event at a platform, by its clock, until the event log has it; without polled events. The objective is 99 % within 15 s.", "s",
				quantiles("stagedoor_listener_event_seconds", "")},
			{"Trouble of sockets", "Lost sockets, fetches of missed frames, sockets that wait because the log lags, and gaps.", "reqps", []line{
				rate("stagedoor_listener_reconnects_total", "", "lost"), rate("stagedoor_listener_fills_total", "", "filled"),
				rate("stagedoor_listener_held_total", "", "held"), rate("stagedoor_listener_gaps_total", "", "gaps"),
			}},
			{"Leases", "Slots of work by kind. The sum must be constant.", "short", []line{gauge("stagedoor_lease_slots_held", "kind", "{{kind}}")}},
			{"Trouble of leases", "Nodes that could not renew, work that did not end, and the age of the oldest renewal.", "short", []line{
				{"sum by (kind) (increase(stagedoor_lease_lapses_total{OF}[$__rate_interval]))", "lapsed: {{kind}}"},
				{"sum by (kind) (increase(stagedoor_lease_stuck_total{OF}[$__rate_interval]))", "stuck: {{kind}}"},
				{"max by (kind) (time() - stagedoor_lease_beat_seconds{OF})", "seconds since the renewal: {{kind}}"},
			}},
		}},
		{"Store", []panel{
			{"Events", "Stored, and records that were repeats.", "reqps", []line{
				rate("stagedoor_ingest_stored_total", "", "stored"), rate("stagedoor_ingest_repeated_total", "", "repeats"),
			}},
			{"Lag", "How far the store lags after the event log, and the age of the oldest event in the outbox.", "s", []line{
				highest("stagedoor_ingest_lag_seconds", "", "event log"), highest("stagedoor_outbox_oldest_seconds", "", "outbox"),
			}},
			{"Event log", "The used share of its maximum size. When it is full, listeners wait.", "percentunit", []line{highest("stagedoor_eventlog_used_ratio", "", "used")}},
			{"Transactions", "Duration of the last one of each node, and events per transaction.", "s", []line{highest("stagedoor_ingest_commit_seconds", "", "slowest node")}},
			{"Events per transaction", "", "short", quantiles("stagedoor_ingest_batch_events", "")},
			{"Failures", "Batches that are retried, buckets that another node had claimed, lost logs and dead letters.", "reqps", []line{
				rate("stagedoor_ingest_failures_total", "", "retried"), rate("stagedoor_ingest_fenced_total", "", "fenced"),
				rate("stagedoor_ingest_log_lost_total", "", "lost logs"), rate("stagedoor_ingest_dead_letters_total", "", "dead letters"),
			}},
			{"Outbox", "Events of the service itself that are not in the store yet.", "short", []line{highest("stagedoor_outbox_events", "", "events")}},
		}},
		{"Webhooks", []panel{
			{"Deliveries", "By outcome.", "reqps", []line{rate("stagedoor_webhook_deliveries_total", "outcome", "{{outcome}}"), rate("stagedoor_webhook_unlogged_total", "", "not logged")}},
			{"Wait of deliveries", "From the storing of an event until its first attempt, to receivers that keep up. The objective is 99 % within 15 s.", "s",
				quantiles("stagedoor_webhook_wait_seconds", "")},
			{"Duration of deliveries", "The time that receivers take.", "s", quantiles("stagedoor_webhook_delivery_seconds", "")},
			{"Lanes", "Of accounts with webhooks; those that have something to do; deliveries in flight; lanes and hosts that wait for a retry.", "short", []line{
				gauge("stagedoor_webhook_lanes", "", "all"), gauge("stagedoor_webhook_pending", "", "pending"), gauge("stagedoor_webhook_backlog", "", "could send now"),
				gauge("stagedoor_webhook_in_flight", "", "in flight"), gauge("stagedoor_webhook_timers", "", "waiting for a retry"),
			}},
			{"Receivers that are down", "Hosts whose breaker is open. A sudden rise means trouble with our own network.", "short", []line{gauge("stagedoor_webhook_hosts_down", "", "hosts")}},
			{"Requests to customers' URLs", "By outcome.", "reqps", []line{rate("stagedoor_egress_public_total", "outcome", "{{outcome}}")}},
		}},
		{"Streams", []panel{
			{"Open streams", "And the accounts and organisations that are watched for them.", "short", []line{
				gauge("stagedoor_streams_open", "", "streams"), gauge("stagedoor_stream_feeds", "", "watched"),
			}},
			{"Reads of the store", "", "reqps", []line{rate("stagedoor_stream_store_reads_total", "", "reads"), rate("stagedoor_stream_store_faults_total", "", "failures")}},
		}},
	}},
	{"engines", "nodes and engines", []row{
		{"Nodes", []panel{
			{"Concurrency", "Requests that nodes work on, and their limit, which falls when a node is overloaded.", "short", []line{
				gauge("stagedoor_http_in_flight", "", "in flight, with the waits for platforms"), gauge("stagedoor_http_concurrency", "", "worked on"), gauge("stagedoor_http_concurrency_limit", "", "limit"),
			}},
			{"Wait for a processor", "Nine of ten pieces of work waited less. Above 5 ms a node needs help.", "s", []line{highest("stagedoor_scheduling_delay_seconds", "instance", "{{instance}}")}},
			{"Processors", "In use, by node.", "short", []line{rate("process_cpu_seconds_total", "instance", "{{instance}}")}},
			{"Memory", "Resident, by node.", "bytes", []line{gauge("process_resident_memory_bytes", "instance", "{{instance}}")}},
			{"Versions", "Nodes by version. Two versions are normal during an upgrade.", "short", []line{{"count by (version) (stagedoor_build_info{OF})", "{{version}}"}}},
			{"Goroutines", "By node. They must not grow without end.", "short", []line{gauge("go_goroutines", "instance", "{{instance}}")}},
			{"File descriptors", "The used share, by node.", "percentunit", []line{
				{"process_open_fds{OF} / process_max_fds{OF}", "{{instance}}"},
			}},
			{"Log lines dropped", "By STAGEDOOR_LOG_SAMPLE and level.", "short", []line{rate("stagedoor_log_lines_dropped_total", "level", "{{level}}")}},
		}},
		{"PostgreSQL", []panel{
			{"Connections", "By pool and state.", "short", []line{
				gauge("stagedoor_postgres_connections", "pool, state", "{{pool}} {{state}}"), gauge("stagedoor_postgres_connections_max", "pool", "{{pool}} limit"),
			}},
			{"Waits for a connection", "Queries that waited, and for how long in each second.", "short", []line{
				rate("stagedoor_postgres_waits_total", "pool", "waits a second, {{pool}}"), rate("stagedoor_postgres_wait_seconds_total", "pool", "seconds a second, {{pool}}"),
			}},
			{"Request log", "Lines written, waiting and lost.", "short", []line{
				rate("stagedoor_request_log_written_total", "", "written a second"), gauge("stagedoor_request_log_waiting", "", "waiting"),
				rate("stagedoor_request_log_lost_total", "why", "lost a second: {{why}}"),
			}},
			{"Tasks and jobs", "Tasks of the workers, and customers' jobs.", "short", []line{
				highest("stagedoor_queue_tasks", "queue, state", "{{queue}} {{state}}"), highest("stagedoor_jobs_open", "kind, state", "{{kind}} {{state}}"),
			}},
		}},
		{"Redis and keys", []panel{
			{"Scripts on Redis", "Their duration with the wait for a connection.", "s", quantiles("stagedoor_redis_script_seconds", "")},
			{"Failures of Redis", "", "reqps", []line{
				{`sum(rate(stagedoor_redis_script_seconds_count{OF,outcome="failed"}[$__rate_interval]))`, "failed scripts"},
				highest("stagedoor_admission_degraded", "", "a node decides alone"),
			}},
			{"Keys", "Reads of data keys that were not in memory, and keys that were wrapped again.", "reqps", []line{
				rate("stagedoor_seal_loads_total", "", "loads"), rate("stagedoor_seal_rewrapped_total", "", "wrapped again"),
			}},
			{"Key service", "Its last check by each node, and organisations that still have an older key.", "short", []line{
				{"min(stagedoor_seal_kms_up{OF})", "answers"}, highest("stagedoor_seal_orgs_rotating", "", "organisations with an older key"),
				rate("stagedoor_seal_corrupt_total", "", "texts that do not open"),
			}},
		}},
	}},
}
