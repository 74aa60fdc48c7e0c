package stagedoor

import (
	"context"
	"net/url"
)

// GetResult returns the result of a job: a gzip file with one line of JSON per record. While the job runs, it ends with
// what is written so far; Range continues there. o.Quality has no effect.
func (s *JobsService) GetResult(ctx context.Context, jobID string, o DownloadOptions) (*File, error) {
	return s.client.download(ctx, "/v1/jobs/"+url.PathEscape(jobID)+"/result", nil, o)
}
