// Package s3store stands in for an archiver that no test asks for: it needs the whole of the
// storage provider's SDK.
package s3store

import (
	"errors"

	"go.temporal.io/server/common/archiver"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
)

const URIScheme = "s3"

var errAbsent = errors.New("this server was built for tests, without the archiver of s3://")

func NewHistoryArchiver(persistence.ExecutionManager, log.Logger, metrics.Handler, *config.S3Archiver) (archiver.HistoryArchiver, error) {
	return nil, errAbsent
}

func NewVisibilityArchiver(log.Logger, metrics.Handler, *config.S3Archiver) (archiver.VisibilityArchiver, error) {
	return nil, errAbsent
}
