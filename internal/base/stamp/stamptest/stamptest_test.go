package stamptest_test

import (
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/stamp/stamptest"
)

func TestLooseFindsTimesInOtherFormats(t *testing.T) {
	t.Parallel()
	for body, faults := range map[string]int{
		`{"at": "2026-11-16T18:43:15.120Z", "n": 1, "label": "on 2026-11-16"}`:                    0,
		`{"at": "2026-11-16T18:43:15Z"}`:                                                          1,
		`{"rows": [{"at": "2026-11-16T18:43:15.12Z"}, {"at": "2026-11-16T18:43:15.120381Z"}]}`:    2,
		`{"at": "2026-11-16T18:43:15.120+00:00"}`:                                                 1,
		"id,at\n1,2026-11-16T18:43:15.120Z\n2,2026-11-16T18:43:15Z\n":                             1,
		"event: message\ndata: {\"ts\":\"2026-11-16T18:43:15.1204Z\"}\n\n":                        1,
		`{"example": {"expiresAt": "2027-01-01T00:00:00Z"}, "at": "2026-11-16T18:43:15.120000Z"}`: 1,
	} {
		if got := stamptest.Loose([]byte(body)); len(got) != faults {
			t.Errorf("%s: %q; want %d", body, got, faults)
		}
	}
}
