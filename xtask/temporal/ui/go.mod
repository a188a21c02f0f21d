module github.com/temporalio/ui-server/v2

go 1.21
