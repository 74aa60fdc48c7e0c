package eventlog

// AppendRecord is appendRecord, for tests.
var AppendRecord = appendRecord
