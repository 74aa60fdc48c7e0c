package stamp_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func TestTimesAreUTCWithExactlyThreeDecimals(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"2026-11-16T18:43:15Z":             "2026-11-16T18:43:15.000Z",
		"2026-11-16T18:43:15.12Z":          "2026-11-16T18:43:15.120Z",
		"2026-11-16T18:43:15.120999Z":      "2026-11-16T18:43:15.120Z",
		"2026-11-16T18:43:15.999999999Z":   "2026-11-16T18:43:15.999Z",
		"2026-11-17T00:13:15.5+05:30":      "2026-11-16T18:43:15.500Z",
		"0001-01-01T00:00:00Z":             "0001-01-01T00:00:00.000Z",
		"1969-12-31T23:59:59.999499-00:00": "1969-12-31T23:59:59.999Z",
	} {
		at, err := time.Parse(time.RFC3339Nano, given)
		must.OK(t, err)
		text, err := json.Marshal(struct {
			At   stamp.Time  `json:"at"`
			Also *stamp.Time `json:"also"`
			None *stamp.Time `json:"none"`
			Zero stamp.Time  `json:"zero,omitzero"`
		}{At: stamp.Time(at), Also: (*stamp.Time)(&at)})
		if whole := `{"at":"` + want + `","also":"` + want + `","none":null}`; err != nil || string(text) != whole {
			t.Errorf("%s: %s, %v; want %s", given, text, err, whole)
		}
		if got := stamp.Text(at); got != want {
			t.Errorf("%s: Text = %s, want %s", given, got, want)
		}
		var back stamp.Time
		if err := json.Unmarshal([]byte(`"`+given+`"`), &back); err != nil || !time.Time(back).Equal(at) {
			t.Errorf("%s is read as %s, %v", given, back, err)
		}
	}
}

func TestAYearWithFiveDigitsIsRefused(t *testing.T) {
	t.Parallel()
	if text, err := json.Marshal(stamp.Time(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))); err == nil {
		t.Errorf("written as %s", text)
	}
}
