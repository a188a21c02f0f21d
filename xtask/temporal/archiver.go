// Package PACKAGE stands in for an archiver that no test asks for: it brings the SDK of a cloud.
package PACKAGE

import (
	"errors"

	"go.temporal.io/server/common/archiver"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
)

const URIScheme = "SCHEME"

var errAbsent = errors.New("this server was built for tests, without the archiver of SCHEME://")

func NewHistoryArchiver(persistence.ExecutionManager, log.Logger, metrics.Handler, *config.CONFIG) (archiver.HistoryArchiver, error) {
	return nil, errAbsent
}

func NewVisibilityArchiver(log.Logger, metrics.Handler, *config.CONFIG) (archiver.VisibilityArchiver, error) {
	return nil, errAbsent
}
