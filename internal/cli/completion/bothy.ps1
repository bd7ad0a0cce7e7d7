# PowerShell completion for bothy: what follows, bothy completes itself.

Register-ArgumentCompleter -Native -CommandName 'bothy' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
        Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        ForEach-Object { if ($null -ne $_.Value) { "$($_.Value)" } else { $_.Extent.Text } })
    # Before 7.3 an empty argument is lost unless it is quoted.
    $word = "$wordToComplete"
    if ($word -eq '' -and $PSVersionTable.PSVersion -lt [version]'7.3.0') { $word = '""' }

    $answer = @(bothy __complete @words $word 2>$null)
    if ($answer.Count -eq 0 -or $answer[-1] -notmatch '^:(\d+)$') { return }
    $directive = [int]$Matches[1]

    # The value of --flag=value is answered alone.
    $flag = if ($word -match '^--[^=]*=') { $Matches[0] } else { '' }
    $space = if ($directive -band 2) { '' } else { ' ' }
    foreach ($line in ($answer | Select-Object -SkipLast 1)) {
        $value, $text = $line -split "`t", 2
        if (-not $text) { $text = $value }
        [System.Management.Automation.CompletionResult]::new("$flag$value$space", $value, 'ParameterValue', $text)
    }
    # Without any result PowerShell completes names of files.
    if ($answer.Count -eq 1 -and ($directive -band 5)) { '' }
}
